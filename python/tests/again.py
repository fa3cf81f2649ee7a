"""Makes the default group, sums, and destroys the group, many times: test_groups.py."""

import sys

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401 (registers the backend)

for _ in range(int(sys.argv[1])):
    dist.init_process_group("atp")
    tensor = torch.ones(5)
    dist.all_reduce(tensor)
    rank, size = dist.get_rank(), dist.get_world_size()
    assert tensor[0] == size
    dist.destroy_process_group()
sys.stdout.write(f"rank {rank} of {size} ends\n")  # at once, so that lines do not mix
