"""All ranks say what they are about to do before any of them does it.

Ranks that go on with different plans wait for one another until a time-out that names nobody. So
whatever must be the same everywhere is written into the job's store first, and whoever differs,
fails or is missing is named at every rank.
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
"""How long a rank waits for the others to say what they do."""

# They are there already; the error must not wait for one that ended meanwhile.
_PATIENCE_FOR_DETAILS = datetime.timedelta(seconds=5)


def agree(
    text: str,
    gift: str = "",
    *,
    modules: Mapping[str, str] | None = None,
    error: Exception | None = None,
    patience: datetime.timedelta = PATIENCE,
) -> str:
    """Returns when every rank of the job has said the same `text`, and raises at all of them else.

    Args:
        text: what this rank is about to do, for people.
        gift: rank 0's is returned at all ranks.
        modules: what each module is to this rank; of ranks that say different things the first
            that differs is named.
        error: why it cannot; every rank then raises it, or that of the lowest rank that has one.
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: the ranks say different things, or one of them cannot go on.
        TimeoutError: some rank said nothing; the text names it.
    """
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
    """Where the ranks say what they do this time. A collective, so all have come as often.

    How often is counted in the store: it may outlive the group (torchrun's own does), and then its
    old words must not be taken for new ones; and a new store begins anew.
    """
    everything = dist.PrefixStore("atp/agreement/", c10d._get_default_store())
    return dist.PrefixStore(f"{everything.add(f'calls/{rank}', 1)}/", everything)


def _wait(said: dist.Store, patience: datetime.timedelta) -> list[str]:
    keys = [str(rank) for rank in range(dist.get_world_size())]
    try:
        said.wait(keys, patience)
    except RuntimeError as error:
        missing = ", ".join(key for key in keys if not said.check([key]))
        raise TimeoutError(
            f"rank {missing} of {len(keys)} did not come within {patience.total_seconds():g} s: "
            "every rank must call init_mesh(), parallelize(), save() and load() in the same order "
            "(patience=... waits longer)"
        ) from error
    return [said.get(key).decode() for key in keys]


def _refuse_errors(everything: list[str]) -> None:
    for rank, text in enumerate(everything):
        if text.startswith("error: "):
            raise ValueError(f"rank {rank} cannot go on: {text.removeprefix('error: ')}")


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
    """What the first rank of each side says of its modules. They are sent only when it matters."""
    keys = {text: f"modules/{who[0]}" for text, who in ranks.items()}
    try:
        said.set(f"modules/{dist.get_rank()}", json.dumps(modules))
        said.wait(list(keys.values()), _PATIENCE_FOR_DETAILS)
        return {text: json.loads(said.get(key)) for text, key in keys.items()}
    except RuntimeError:  # a rank has ended, perhaps the one that keeps the store
        return {}
