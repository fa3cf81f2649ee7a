"""One rank of ring_beside_gloo.py: times collectives, and checks their results and bytes.

RANK=... WORLD_SIZE=... ring_rank.py MEET RESULT ROUNDS SIZES...
"""

import contextlib
import datetime
import json
import math
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch

PATHS = ("ring", "gloo")
# The minimum that a rank sends, in units of the whole tensor.
SHARES = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
}


class Collective:
    """A collective of SHARES on a tensor of `size` bytes: input, output, expected output."""

    def __init__(self, name, size):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        whole, block = torch.empty(size // 4), torch.empty(size // 4 // ranks)
        self.name = name
        self.fill = rank + 1.0
        self.input = block if name == "all_gather" else whole
        self.result = block if name == "reduce_scatter" else whole
        self.expected = torch.full_like(self.result, ranks * (ranks + 1) / 2)
        if name == "all_gather":
            self.expected = torch.arange(1.0, ranks + 1).repeat_interleave(len(block))

    def run(self, group):
        if self.name == "all_reduce":
            dist.all_reduce(self.result, group=group)
        elif self.name == "reduce_scatter":
            dist.reduce_scatter_tensor(self.result, self.input, group=group)
        else:
            dist.all_gather_into_tensor(self.result, self.input, group=group)

    def seconds(self, group):
        """Seconds on the slowest rank."""
        self.input.fill_(self.fill)
        dist.barrier()
        begin = time.perf_counter()
        self.run(group)
        took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        right = torch.equal(self.result, self.expected)
        assert right, f"wrong result of {self.name} by {dist.get_backend(group)}"
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        return took.item()


def measure(sizes, rounds):
    """Rows of (collective, bytes, path, seconds of each round)."""
    groups = {"ring": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = []
    for name in SHARES:
        for size in sizes:
            collective = Collective(name, size)
            turns = [
                [collective.seconds(groups[path]) for path in PATHS] for _ in range(rounds + 1)
            ]
            taken = zip(*turns[1:], strict=True)  # the first is a warm-up
            rows += [(name, size, path, own) for path, own in zip(PATHS, taken, strict=True)]
    return rows


def bytes_of_a_rank(name, size, ranks):
    """By docs/inside/torch-internals.md, if the ranks divide values and blocks of 256."""
    values = size // 4
    if name == "all_reduce" and values <= max(16, 4096 // ranks):
        return (ranks - 1) * size
    exponents = 2 * math.ceil(values / 256) if name == "all_reduce" else 0
    return round(SHARES[name](ranks) * (size + exponents))


def check_bytes(sizes, rounds):
    """Checks that the ring sent what the model predicts; maxima of times go over Gloo."""
    ranks = dist.get_world_size()
    once = sum(bytes_of_a_rank(name, size, ranks) for name in SHARES for size in sizes)
    sent, expected = atp.torch.stats()["bytes_sent"], once * (rounds + 1)
    assert sent == expected, f"sent {sent} bytes, expected {expected} by the model"


def main(meet, result, rounds, *sizes):
    rounds, sizes = int(rounds), [int(size) for size in sizes]
    # Take priority over other processes of this machine, if permitted.
    with contextlib.suppress(PermissionError):
        os.nice(-15)
    torch.set_num_threads(1)
    dist.init_process_group(
        "atp",
        init_method=meet,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        pg_options=atp.torch.Options(algorithm="ring"),
        timeout=datetime.timedelta(seconds=120),
    )
    rows = measure(sizes, rounds)
    check_bytes(sizes, rounds)
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
