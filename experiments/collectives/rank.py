"""One rank of experiments.collectives: times each collective over atp and over Gloo, alternating.

RANK=... WORLD_SIZE=... rank.py MEET RESULT ROUNDS BUDGET COLLECTIVES SIZES...
"""

import contextlib
import datetime
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch

PATHS = ("atp", "gloo")
# Calls per round, for tensors of up to this many bytes; one call for larger ones. A single short
# call mostly measures how soon the system wakes each thread: such rounds vary by several times the
# difference between the libraries.
CALLS = {1 << 20: 10, 1 << 22: 3}


class Collective:
    """One collective of `size` bytes per rank and call: tensors, call, and the result's check."""

    def __init__(self, name: str, size: int):
        self.name = name
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        values = max(size // 4 // self.ranks, 1) * self.ranks
        self.whole = torch.empty(values)
        self.other = torch.empty(values)
        self.share = torch.empty(values // self.ranks)
        self.root = self.rank == 0

    def fill(self):
        """`whole` and `share` of rank r hold r + 1."""
        self.whole.fill_(self.rank + 1.0)
        self.other.fill_(-1.0)
        self.share.fill_(self.rank + 1.0)

    def call(self, group):
        getattr(self, f"_{self.name}")(group)

    def check(self):
        """Whether the last result is right to the last bit; sums of small integers are exact."""
        found, expected = getattr(self, f"_result_of_{self.name}")()
        return found is None or torch.equal(found, expected)

    def _blocks(self, tensor):
        return list(tensor.chunk(self.ranks))

    def _sum(self):
        return self.ranks * (self.ranks + 1) / 2

    def _all_reduce(self, group):
        # In place, so copy first; several calls would otherwise sum sums. The same for both paths.
        self.other.copy_(self.whole)
        dist.all_reduce(self.other, group=group)

    def _result_of_all_reduce(self):
        return self.other, torch.full_like(self.other, self._sum())

    def _reduce(self, group):
        self.other.copy_(self.whole)
        dist.reduce(self.other, 0, group=group)

    def _result_of_reduce(self):
        return (self.other, torch.full_like(self.other, self._sum())) if self.root else (None, None)

    def _broadcast(self, group):
        dist.broadcast(self.whole if self.root else self.other, 0, group=group)

    def _result_of_broadcast(self):
        found = self.whole if self.root else self.other
        return found, torch.ones_like(found)

    def _reduce_scatter(self, group):
        dist.reduce_scatter_tensor(self.share, self.whole, group=group)

    def _result_of_reduce_scatter(self):
        return self.share, torch.full_like(self.share, self._sum())

    def _all_gather(self, group):
        dist.all_gather_into_tensor(self.other, self.share, group=group)

    def _numbered(self):
        return torch.arange(1.0, self.ranks + 1).repeat_interleave(len(self.share))

    def _result_of_all_gather(self):
        return self.other, self._numbered()

    def _gather(self, group):
        dist.gather(self.share, self._blocks(self.other) if self.root else None, 0, group=group)

    def _result_of_gather(self):
        return (self.other, self._numbered()) if self.root else (None, None)

    def _scatter(self, group):
        dist.scatter(self.share, self._blocks(self.whole) if self.root else None, 0, group=group)

    def _result_of_scatter(self):
        return self.share, torch.ones_like(self.share)

    def _all_to_all(self, group):
        dist.all_to_all_single(self.other, self.whole, group=group)

    def _result_of_all_to_all(self):
        return self.other, self._numbered()

    def _send_recv(self, group):
        """From rank 0 to rank 1 and back; the other ranks wait for the end of the round."""
        if self.rank == 0:
            dist.send(self.whole, 1, group=group)
            dist.recv(self.other, 1, group=group)
        elif self.rank == 1:
            dist.recv(self.other, 0, group=group)
            dist.send(self.other, 0, group=group)

    def _result_of_send_recv(self):
        return (self.other, torch.ones_like(self.other)) if self.rank < 2 else (None, None)

    def _barrier(self, group):
        dist.barrier(group=group)

    def _result_of_barrier(self):
        return None, None


# What the fullest link of n ranks carries in one direction, in units of the tensor.
SHARES = {
    "all_reduce": lambda n: 2 * (n - 1) / n,
    "reduce_scatter": lambda n: (n - 1) / n,
    "all_gather": lambda n: (n - 1) / n,
    "broadcast": lambda n: 1,
    "reduce": lambda n: 1,
    "gather": lambda n: (n - 1) / n,
    "scatter": lambda n: (n - 1) / n,
    "all_to_all": lambda n: (n - 1) / n,
    "send_recv": lambda n: 2,
    "barrier": lambda n: 0,
}


def calls_of(size):
    """How often a collective of this many bytes is called in a round."""
    return next((calls for most, calls in CALLS.items() if size <= most), 1)


def seconds(collective, group, control):
    """Seconds per call on the slowest rank."""
    calls = calls_of(collective.whole.nbytes)
    collective.fill()
    dist.barrier(group=control)
    begin = time.perf_counter()
    for _ in range(calls):
        collective.call(group)
    took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    right = collective.check()
    assert right, f"{collective.name} over {dist.get_backend(group)}: wrong result"
    dist.all_reduce(took, op=dist.ReduceOp.MAX, group=control)
    return took.item() / calls


def measure(names, sizes, rounds, budget):
    """Rows of (collective, bytes, path, seconds of each round).

    Slow collectives run fewer than `rounds` rounds, but at least 3, to stay within `budget` s.
    """
    groups = {"atp": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    control = dist.new_group(backend="gloo")
    rows = []
    for name in names:
        for size in sizes if name != "barrier" else [4]:
            collective = Collective(name, size)

            def pair(collective=collective):
                return [seconds(collective, groups[path], control) for path in PATHS]

            warm = sum(pair()) * calls_of(size)
            turns = [pair() for _ in range(max(3, min(rounds, int(budget / warm))))]
            taken = zip(*turns, strict=True)
            rows += [(name, size, path, own) for path, own in zip(PATHS, taken, strict=True)]
            if dist.get_rank() == 0:
                print(f"{name} {size}", file=sys.stderr, flush=True)
    return rows


def main(meet, result, rounds, budget, names, *sizes):
    # Run ahead of other processes on this machine, if permitted.
    with contextlib.suppress(PermissionError):
        os.nice(-15)
    torch.set_num_threads(1)
    dist.init_process_group(
        "atp",
        init_method=meet,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=datetime.timedelta(seconds=300),
    )
    sizes = [int(size) for size in sizes]
    rows = measure(names.split(","), sizes, int(rounds), float(budget))
    if dist.get_rank() == 0:
        paths = {
            path: sorted(of)
            for path, of in atp.torch.stats().items()
            if path in ("innetwork", "ring", "peers")
        }
        memory = atp.torch.stats()["host_memory"]
        Path(result).write_text(json.dumps({"rows": rows, "paths": paths, "memory": memory}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
