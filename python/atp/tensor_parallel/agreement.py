"""Every rank publishes what it is about to do before any of them does it.

Ranks that continue with different plans wait for one another until a time-out that names no rank.
So each rank first writes what must be the same everywhere into the job's store, and the error on
every rank names the ranks that differ, failed or are missing.
"""

import collections
import datetime
import json
from collections.abc import Mapping

import torch.distributed as dist
import torch.distributed.distributed_c10d as c10d

from atp.tensor_parallel.difference import first_difference, name_ranks

__all__ = ["agree", "PATIENCE"]

PATIENCE = datetime.timedelta(seconds=60)
"""How long a rank waits for the others' plans."""

# The texts are already in the store; the error must not wait for a rank that has ended meanwhile.
_PATIENCE_FOR_DETAILS = datetime.timedelta(seconds=5)


def agree(
    text: str,
    gift: str = "",
    *,
    modules: Mapping[str, str] | None = None,
    error: Exception | None = None,
    patience: datetime.timedelta = PATIENCE,
) -> str:
    """Returns once every rank of the job has published the same `text`; otherwise raises on all.

    Args:
        text: what this rank is about to do, for people to read.
        gift: every rank gets rank 0's as the result.
        modules: this rank's description of each module; if the ranks differ, the error names the
            first module that differs.
        error: why this rank cannot continue; every rank then raises the error of the lowest rank
            that has one.
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: the ranks' texts differ, or a rank cannot continue.
        TimeoutError: a rank published nothing in time; the message names it.
    """
    if not isinstance(patience, datetime.timedelta):
        raise ValueError(f"patience: found {patience!r}, expected a datetime.timedelta")
    rank = str(dist.get_rank())
    said = _next_round(rank)
    if rank == "0":
        said.set("gift", gift)
    said.set(rank, f"error: {error}" if error else f"plan: {text}")
    try:
        everything = _wait(said, patience)
    except TimeoutError:
        if error:
            raise error from None
        raise
    if error:
        raise error
    _refuse_errors(everything)
    _refuse_differences(everything, said, modules or {})
    return said.get("gift").decode()


def _next_round(rank: str) -> dist.Store:
    """The part of the store for this call; a collective, so every rank has the same count of calls.

    The count is in the store: a store may outlive the group (torchrun's own does), and then texts
    of earlier calls must not be taken for new ones; a new store starts from zero.
    """
    everything = dist.PrefixStore("atp/agreement/", c10d._get_default_store())
    return dist.PrefixStore(f"{everything.add(f'calls/{rank}', 1)}/", everything)


def _wait(said: dist.Store, patience: datetime.timedelta) -> list[str]:
    keys = [str(rank) for rank in range(dist.get_world_size())]
    try:
        said.wait(keys, patience)
    except RuntimeError as error:
        missing = name_ranks([int(key) for key in keys if not said.check([key])])
        raise TimeoutError(
            f"{missing} of {len(keys)} did not arrive within {patience.total_seconds():g} s: "
            "every rank must call init_mesh(), parallelize(), save() and load() in the same order "
            "(pass patience=... to wait longer)"
        ) from error
    return [said.get(key).decode() for key in keys]


def _refuse_errors(everything: list[str]) -> None:
    for rank, text in enumerate(everything):
        if text.startswith("error: "):
            raise ValueError(f"rank {rank} cannot continue: {text.removeprefix('error: ')}")


def _refuse_differences(
    everything: list[str], said: dist.Store, modules: Mapping[str, str]
) -> None:
    ranks = collections.defaultdict(list)
    for rank, text in enumerate(everything):
        ranks[text.removeprefix("plan: ")].append(rank)
    if len(ranks) == 1:
        return
    parts = [f"{name_ranks(who)} say{'s'[: len(who) == 1]}: {what}" for what, who in ranks.items()]
    first = first_difference(_modules_of(ranks, said, modules), ranks)
    where = f". They differ first in {first}" if first else ""
    raise ValueError(f"the ranks disagree: {'; '.join(parts)}{where}. All must do the same")


def _modules_of(
    ranks: Mapping[str, list[int]], said: dist.Store, modules: Mapping[str, str]
) -> dict[str, dict[str, str]]:
    """The module descriptions of each side's first rank, exchanged only on a disagreement."""
    keys = {text: f"modules/{who[0]}" for text, who in ranks.items()}
    try:
        said.set(f"modules/{dist.get_rank()}", json.dumps(modules))
        said.wait(list(keys.values()), _PATIENCE_FOR_DETAILS)
        return {text: json.loads(said.get(key)) for text, key in keys.items()}
    except RuntimeError:  # a rank has ended, perhaps the one that hosts the store
        return {}
