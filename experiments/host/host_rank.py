"""One rank of memory_beside_gloo.py: times all-reduces and checks their results.

RANK=... WORLD_SIZE=... host_rank.py MEET RESULT ROUNDS SIZES...
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

PATHS = ("memory", "ring", "gloo")
# A round of a small tensor is this many all-reduces in a row; a single one would be lost in noise.
BYTES_OF_A_ROUND = 1 << 20
MOST_OF_A_ROUND = 50


def seconds(group, tensor, times):
    """Seconds per all-reduce on the slowest rank, over several in a row."""
    dist.barrier()
    begin = time.perf_counter()
    for _ in range(times):
        dist.all_reduce(tensor, group=group)
    took = torch.tensor([(time.perf_counter() - begin) / times], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX, group=dist.group.WORLD)
    return took.item()


def measure(groups, size, rounds):
    """Seconds of each round by path; the paths take turns."""
    ranks, values = dist.get_world_size(), size // 4
    times = max(1, min(MOST_OF_A_ROUND, BYTES_OF_A_ROUND // size))
    taken = {path: [] for path in PATHS}
    for _ in range(rounds + 1):
        for path in PATHS:
            tensor = torch.full((values,), 2.0**-100)
            taken[path].append(seconds(groups[path], tensor, times))
            expected = torch.full((values,), 2.0**-100 * ranks**times)
            assert torch.equal(tensor, expected), f"wrong sum over {path}"
    return {path: own[1:] for path, own in taken.items()}  # the first is a warm-up


def main(meet, result, rounds, *sizes):
    # Take priority over other processes of this machine, if permitted.
    with contextlib.suppress(PermissionError):
        os.nice(-15)
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo",
        init_method=meet,
        rank=int(os.environ["RANK"]),
        world_size=int(os.environ["WORLD_SIZE"]),
        timeout=datetime.timedelta(seconds=120),
    )
    options = {
        "memory": atp.torch.Options(host_memory=True),
        "ring": atp.torch.Options(algorithm="ring"),
    }
    groups = {path: dist.new_group(backend="atp", pg_options=o) for path, o in options.items()}
    groups["gloo"] = dist.group.WORLD
    assert atp.torch.stats(groups["memory"])["host_memory"]
    rows = [(int(size), measure(groups, int(size), int(rounds))) for size in sizes]
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
