"""One rank of loss.py: times all-reduces in the network and over Gloo, alternately.

RANK=... WORLD_SIZE=... loss_rank.py MEET RESULT BYTES ITERATIONS
"""

import datetime
import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401 (registers the backend)

PATHS = ("innetwork", "gloo")
BATCH = 10  # all-reduces on one path per turn


def seconds_of_one(group, tensor, expected):
    tensor.fill_(dist.get_rank() + 1.0)
    dist.barrier()
    begin = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    took = time.perf_counter() - begin
    assert torch.equal(tensor, expected), f"wrong sum by {dist.get_backend(group)}"
    return took


def main(meet, result, size, iterations):
    size, iterations = int(size), int(iterations)
    torch.set_num_threads(1)
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(
        "atp",
        init_method=meet,
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=120),
    )
    groups = {"innetwork": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    tensor = torch.empty(size // 4)
    expected = torch.full_like(tensor, ranks * (ranks + 1) / 2)
    seconds = {path: [] for path in PATHS}
    for begin in range(0, iterations + BATCH, BATCH):  # the first batch is a warm-up
        for path in PATHS:
            own = [seconds_of_one(groups[path], tensor, expected) for _ in range(BATCH)]
            slowest = torch.tensor(own, dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX, group=groups["gloo"])
            if begin > 0:
                seconds[path] += slowest.tolist()
    if rank == 0:
        Path(result).write_text(json.dumps(seconds))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
