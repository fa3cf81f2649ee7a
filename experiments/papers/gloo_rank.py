"""One rank of a job that sums over Gloo's ring; rank 0 prints the time of each sum.

RANK=... WORLD_SIZE=... gloo_rank.py BYTES

Every element of every sum is checked. It runs until it is killed.
"""

import sys
import time

import torch
import torch.distributed as dist


def main(size):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    tensor = torch.empty(size // 4)
    while True:
        tensor.fill_(rank + 1.0)
        dist.all_reduce(tensor)
        assert torch.all(tensor == ranks * (ranks + 1) / 2), "wrong sum"
        if rank == 0:
            print(f"{time.time():.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]))
