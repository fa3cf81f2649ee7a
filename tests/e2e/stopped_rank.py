"""A rank of test_stopped_job.py: a step every 50 ms, each checked; says when the first is done.

stopped_rank.py STEPS
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import atp.torch


def options_of(way):
    if way == "ring":
        return atp.torch.Options(algorithm="ring", host_memory=False)
    return atp.torch.Options(algorithm="innetwork", host_memory=way == "memory")


def main(steps):
    dist.init_process_group("atp", pg_options=options_of(os.environ["WAY"]))
    rank, world_size = dist.get_rank(), dist.get_world_size()
    for step in range(steps):
        tensor = torch.full((50_000,), float(rank + step))
        dist.all_reduce(tensor)
        wanted = sum(range(world_size)) + world_size * step
        assert bool((tensor == wanted).all()), f"step {step}: {tensor} is not {wanted}"
        if step == 0:
            print(f"rank {rank} has begun", flush=True)
        time.sleep(0.05)
    dist.destroy_process_group()
    print(f"rank {rank} has ended", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
