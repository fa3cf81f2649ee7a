"""A rank of test_rolling_update.py: sums, and checks each of them, until the file STOP exists.

rolling_rank.py STOP

Rank 0 looks for the file, and the ranks agree on what it has seen through a separate sum.
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401

VALUES = 100_000


def main(stop):
    dist.init_process_group("atp")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    step = 0
    stopping = False
    while not stopping:
        tensor = torch.full((VALUES,), (rank + step % 1000) / 64)
        dist.all_reduce(tensor)
        wanted = (sum(range(world_size)) + world_size * (step % 1000)) / 64
        assert bool((tensor == wanted).all()), f"step {step}: {tensor} is not {wanted}"
        seen = torch.tensor([1.0 if rank == 0 and Path(stop).exists() else 0.0])
        dist.all_reduce(seen)
        stopping = bool(seen.item() > 0)
        step += 1
        if rank == 0 and step % 20 == 0:
            Path(f"{stop}.steps").write_text(str(step))
    dist.destroy_process_group()
    print(f"rank {os.environ['RANK']}: {step} right sums", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
