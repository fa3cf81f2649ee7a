"""Every collective with tensors of every form that torch has, on every path and of every type: the
result is right, or all paths refuse it in the same words before anything is sent."""

import collections

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp.torch._address import this_host

from .argument_rows import RANKS, TYPES, UNSUMMED, Row, rows, same_values
from .overlap_rows import colliding, overlapping

COUNT = 6
PATHS = {
    "memory": {"algorithm": "innetwork", "host_memory": True},
    "network": {"algorithm": "innetwork", "host_memory": False, "hierarchy": False},
    "hosts": {"algorithm": "innetwork", "host_memory": True, "hierarchy": True},
    "ring": {"algorithm": "ring"},
    "auto": {"algorithm": "auto", "host_memory": False, "hierarchy": False},
}


@pytest.fixture
def group_on(monkeypatch):
    """Makes a group whose collectives take this path; "hosts": ranks 0 and 1 on one, 2 apart."""

    def make(path, rank):
        host = f"{this_host()}-{int(rank == RANKS - 1) if path == 'hosts' else 0}"
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: host)
        return dist.new_group(pg_options=atp.torch.Options(**PATHS[path]))

    return make


def verdict(row: Row, rank: int, group) -> str:
    if row.by is not None and row.by != rank:
        return "refused elsewhere"
    try:
        found, expected = row.call(group) or ([], [])
    except (TypeError, ValueError, RuntimeError) as error:
        # torch's own functions refuse conjugate views before any backend sees them.
        is_torchs = "view_as_real doesn't work on unresolved conjugated tensors" in str(error)
        return "right" if is_torchs else f"{type(error).__name__}: {error}"
    if row.must_be_refused:
        return "not refused"
    right = len(found) == len(expected) and all(map(same_values, found, expected))
    return "right" if right else "wrong"


def verdicts(rank, groups, some_rows) -> dict[str, dict[str, str]]:
    """{row: {path: verdict}}"""
    found = collections.defaultdict(dict)
    for path, group in groups.items():
        for row in some_rows:
            found[row.name][path] = verdict(row, rank, group)
    return dict(found)


def faults(found: dict[str, dict[str, str]], refused: set[str]) -> list[str]:
    wrong = []
    for name, by_path in found.items():
        alike = len(set(by_path.values())) == 1
        texts = set(by_path.values()) - {"refused elsewhere"}
        good = alike and all(("Error: " in t) if name in refused else t == "right" for t in texts)
        if not good:
            wrong.append(f"{name}: {by_path}")
    return wrong


@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_every_form_of_argument_is_right_or_refused_alike_on_all_paths(ranks, group_on, dtype):
    def body(rank):
        groups = {path: group_on(path, rank) for path in PATHS}
        table = [
            *rows(rank, COUNT, dtype),
            *(
                Row(
                    f"{name}, {dtype}",
                    call,
                    must_be_refused=dtype == UNSUMMED and "reduce" in name,
                )
                for name, call in overlapping(rank, COUNT, dtype)
            ),
            *(
                Row(f"{name}, {dtype}", call, must_be_refused=True, by=by)
                for name, call, by in colliding(rank, COUNT, dtype)
            ),
        ]
        found = verdicts(rank, groups, table)
        return faults(found, {row.name for row in table if row.must_be_refused}), len(found)

    for wrong, count in ranks.run(RANKS, body, timeout_s=60, limit_s=550):
        assert wrong == []
        assert count > 150


# So large that a result is written while the inputs are still being read.
LARGE = 500_000


@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64], ids=str)
def test_large_tensors_that_share_memory_are_right_on_all_paths(ranks, group_on, dtype):
    def body(rank):
        # "auto" takes one of the others.
        groups = {path: group_on(path, rank) for path in PATHS if path != "auto"}
        table = [Row(name, call) for name, call in overlapping(rank, LARGE, dtype)]
        return faults(verdicts(rank, groups, table), set())

    assert ranks.run(RANKS, body, timeout_s=60, limit_s=550) == [[]] * RANKS
