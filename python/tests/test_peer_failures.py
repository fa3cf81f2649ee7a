"""A rank that is killed, frozen, missing or in another collective: every call's error names it.

The page docs/use/torch.md says which errors come, and when; each that comes must be in its table.
With `-s` the test prints each rank's error, and how long it took to come.
"""

import datetime
import functools
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from .ways import options_of

# Without a server, which would keep dead jobs for a while.
WAYS = ("ring", "memory")
PAGE = Path(__file__).parents[2] / "docs/use/torch.md"
RANKS = 3
VICTIM = 1
LIMIT_S = 2


def blocks():
    """More than is sent before the receiver asks for it; a type that the ring does not sum."""
    return [torch.ones(20_000, dtype=torch.int64) for _ in range(RANKS)]


def with_root(call):
    """A list of blocks at the root, rank 0 of the group; none elsewhere."""
    return lambda group: call(group, blocks() if dist.get_rank() == 0 else None)


CALLS = {
    "broadcast": lambda group: dist.broadcast(blocks()[0], 0, group=group),
    "reduce": lambda group: dist.reduce(blocks()[0], 0, group=group),
    "gather": with_root(lambda group, own: dist.gather(blocks()[0], own, 0, group=group)),
    "scatter": with_root(lambda group, own: dist.scatter(blocks()[0], own, 0, group=group)),
    "all_gather": lambda group: dist.all_gather(blocks(), blocks()[0], group=group),
    "reduce_scatter": lambda group: dist.reduce_scatter(blocks()[0], blocks(), group=group),
    "all_to_all": lambda group: dist.all_to_all(blocks(), blocks(), group=group),
    "all_reduce": lambda group: dist.all_reduce(blocks()[0], group=group),
    "barrier": lambda group: dist.barrier(group=group),
    "monitored_barrier": lambda group: group._get_backend(torch.device("cpu")).monitored_barrier(),
    "send": lambda group: dist.send(blocks()[0], VICTIM, group=group),
    "recv": lambda group: dist.recv(blocks()[0], VICTIM, group=group),
}
COLLECTIVES = [name for name in CALLS if name not in ("send", "recv")]


def told(call, group):
    """Its error and the seconds until then; some calls end before a missing rank matters."""
    begin = time.monotonic()
    for _ in range(3):
        try:
            call(group)
        except dist.DistBackendError as error:
            return str(error), time.monotonic() - begin
    return "no error", 0.0


def be_killed(groups):
    os.kill(os.getpid(), signal.SIGKILL)


def stand_still(groups):
    os.kill(os.getpid(), signal.SIGSTOP)


def stay_away(groups):
    signal.pause()


def be_elsewhere(groups):
    """In each group, calls the next collective of CALLS instead."""
    others = [*COLLECTIVES[1:], COLLECTIVES[0]]
    pairs = zip(others, COLLECTIVES, strict=True)
    in_threads([lambda c=CALLS[other], g=groups[own]: told(c, g) for other, own in pairs])
    signal.pause()


# What docs/use/torch.md calls them.
FATES = {
    be_killed: "is killed",
    stand_still: "is frozen",
    stay_away: "is missing",
    be_elsewhere: "is in another call",
}


@functools.cache
def promised():
    """The page's table: rows of fate, "at once" or "time-out", and a pattern of the error's end."""
    head = "| rank 1 | when | the error ends |\n"
    table = PAGE.read_text().partition(head)[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines() if row.startswith("| is")]
    return [
        (fate, after, re.escape(text.strip("`")).replace("…", ".*")) for fate, after, text in rows
    ]


def check_promise(fate, text, seconds):
    found = [
        after
        for row_fate, after, pattern in promised()
        if row_fate == FATES[fate] and re.search(pattern + "$", text)
    ]
    # A rank that called a little later than the others hears of their time-out before its own.
    at_this_time = {"at once": seconds < LIMIT_S, "time-out": seconds > LIMIT_S / 2}
    assert any(at_this_time[after] for after in found), (FATES[fate], found, seconds, text)


def in_threads(functions):
    results = [None] * len(functions)

    def run(i):
        results[i] = functions[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("connected", [False, True], ids=["before they met", "after they met"])
@pytest.mark.parametrize("fate", FATES)
def test_every_other_ranks_error_names_the_victim(ranks, fate, connected, way):
    options = options_of(way)

    def body(rank):
        limit = datetime.timedelta(seconds=LIMIT_S)
        groups = {name: dist.new_group(timeout=limit, pg_options=options) for name in CALLS}
        if connected:
            for group in groups.values():
                dist.all_to_all(blocks(), blocks(), group=group)
        dist.barrier()
        if rank == VICTIM:
            fate(groups)
        # If a collective and a transfer wait for each other, either may be blamed.
        calls = COLLECTIVES if fate is be_elsewhere else list(CALLS)
        found = in_threads([lambda n=name: told(CALLS[n], groups[n]) for name in calls])
        return dict(zip(calls, found, strict=True))

    others = [rank for rank in range(RANKS) if rank != VICTIM]
    for outcome in ranks.outcomes(RANKS, body, waited_for=others, route="", pg_options=options):
        assert outcome.error is None, outcome.trace
        for name, (text, seconds) in outcome.value.items():
            print(f"{fate.__name__:12} {name:17} rank {outcome.rank} {seconds:4.1f} s  {text}")
            assert f"rank {VICTIM}" in text, (name, text)
            check_promise(fate, text, seconds)
            innocent = others[1 - others.index(outcome.rank)]
            assert f"rank {innocent} (127" not in text or "has called" in text, (name, text)


def test_every_row_of_the_page_is_about_a_fate_of_this_test():
    assert {fate for fate, _, _ in promised()} == set(FATES.values())
    assert {after for _, after, _ in promised()} == {"at once", "time-out"}


def test_both_steps_of_a_sparse_sum_share_one_time_out(ranks):
    """Rank 1 comes late to the first step, and does not come to the second."""

    def body(rank):
        if rank == 1:
            time.sleep(2 * LIMIT_S / 3)
            # What the first step looks like to the other rank.
            heads = [torch.empty(16, dtype=torch.int64) for _ in range(2)]
            own = torch.tensor([1, 1, 1, 4] + [0] * 12)
            dist.all_gather(heads, own)
            signal.pause()
        sparse = torch.sparse_coo_tensor([[0]], [1.0], (4,))
        return told(lambda group: dist.all_reduce(sparse, group=group), None)

    (outcome,) = ranks.outcomes(2, body, waited_for=[0], timeout_s=LIMIT_S)
    text, seconds = outcome.value
    assert "rank 1" in text and f"{LIMIT_S} s" in text
    assert LIMIT_S <= seconds < 1.4 * LIMIT_S
