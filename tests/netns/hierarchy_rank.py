"""One rank of test_hierarchy.py: the same sums in hosts' memory first, and with a worker for each
rank; prints, for both, a digest of the results and what this rank's host has sent meanwhile.
"""

import hashlib
import json
import sys

import torch
import torch.distributed as dist

import atp.torch


def bytes_sent():
    """The bytes that all processes of this host have sent over its link."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])


def sums(group, sizes):
    digest = hashlib.sha256()
    generator = torch.Generator().manual_seed(dist.get_rank())
    works, tensors = [], []
    for i, size in enumerate(sizes):
        values = torch.randn(size, generator=generator) * 10.0 ** (3 * i)
        values[::1000] = float("inf") if i == 1 else 0
        tensors.append(values)
        works.append(dist.all_reduce(values, group=group, async_op=True))
    for work, tensor in zip(works, tensors, strict=True):
        work.wait()
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


dist.init_process_group("atp", pg_options=atp.torch.Options(hierarchy=False))
groups = {way: dist.new_group(pg_options=atp.torch.Options(hierarchy=way)) for way in (False, True)}
found = {}
for way, group in groups.items():
    dist.barrier()
    before = bytes_sent()
    result = sums(group, [int(size) for size in sys.argv[1:]])
    dist.barrier()
    found["hosts" if way else "ranks"] = {
        "digest": result,
        "sent": bytes_sent() - before,
        "in_memory": atp.torch.stats(group)["host_memory"],
    }
print(json.dumps(found), flush=True)
dist.destroy_process_group()
