"""A rank of test_late_rank.py: equal steps, the last rank 100 ms behind in each.

late_rank.py STORE STEPS VALUES
"""

import os
import sys
import time

import torch
import torch.distributed as dist

import atp.torch

LATE_S = 0.1


def main(store, steps, values):
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    through_the_switch = atp.torch.Options(algorithm="innetwork", host_memory=False)
    dist.init_process_group(
        "atp",
        f"file://{store}",
        rank=rank,
        world_size=world_size,
        pg_options=through_the_switch,
    )
    for step in range(steps):
        if rank == world_size - 1:
            time.sleep(LATE_S)
        tensor = torch.full((values,), (rank + step) / 64)
        dist.all_reduce(tensor)
        wanted = (sum(range(world_size)) + world_size * step) / 64
        assert bool((tensor == wanted).all()), f"step {step}: {tensor} is not {wanted}"
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
