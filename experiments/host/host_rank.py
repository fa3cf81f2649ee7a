"""A rank of memory_beside_gloo.py or types_beside_gloo.py: times all-reduces, checks results.

RANK=... WORLD_SIZE=... host_rank.py MEET RESULT ROUNDS TYPES PATHS SIZES...
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
    """Per all-reduce, over several in a row: seconds on the slowest rank, and the processor time of
    all ranks together."""
    # Gloo adds bools as bytes, so that the sum of 256 true values is false.
    op = dist.ReduceOp.MAX if tensor.dtype == torch.bool else dist.ReduceOp.SUM
    dist.barrier()
    begin, processor = time.perf_counter(), time.process_time()
    for _ in range(times):
        dist.all_reduce(tensor, op=op, group=group)
    took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    used = torch.tensor([time.process_time() - processor], dtype=torch.float64)
    dist.all_reduce(took, op=dist.ReduceOp.MAX, group=dist.group.WORLD)
    dist.all_reduce(used, group=dist.group.WORLD)
    return took.item() / times, used.item() / times


def first_and_last(dtype, ranks, times):
    """A value, and what it becomes when it is summed so many times."""
    if dtype == torch.bool:
        return True, True
    if dtype.is_floating_point:
        least = torch.finfo(dtype).smallest_normal
        return least, least * ranks**times
    bits = 8 * dtype.itemsize
    sign = 0 if torch.iinfo(dtype).min == 0 else 1 << (bits - 1)
    return 1, (ranks**times + sign) % (1 << bits) - sign


def measure(groups, dtype, size, rounds):
    """seconds() of each round by path; the paths take turns."""
    ranks, values = dist.get_world_size(), size // dtype.itemsize
    times = max(1, min(MOST_OF_A_ROUND, BYTES_OF_A_ROUND // size))
    if dtype == torch.float16:
        times = min(times, 28 // (ranks.bit_length() - 1))
    first, last = first_and_last(dtype, ranks, times)
    taken = {path: [] for path in groups}
    for _ in range(rounds + 1):
        for path in groups:
            if path == "gloo" and dtype == torch.int16:
                continue  # Gloo has no sum of it
            tensor = torch.full((values,), first, dtype=dtype)
            taken[path].append(seconds(groups[path], tensor, times))
            expected = torch.full((values,), last, dtype=dtype)
            assert torch.equal(tensor, expected), f"wrong sum of {dtype} over {path}"
    return {path: own[1:] for path, own in taken.items()}  # the first is a warm-up


def main(meet, result, rounds, types, paths, *sizes):
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
    groups = {
        path: dist.new_group(backend="atp", pg_options=options[path])
        if path in options
        else dist.group.WORLD
        for path in paths.split(",")
    }
    assert atp.torch.stats(groups["memory"])["host_memory"]
    rows = [
        (name, int(size), measure(groups, getattr(torch, name), int(size), int(rounds)))
        for name in types.split(",")
        for size in sizes
    ]
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
