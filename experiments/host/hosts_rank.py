"""One rank of several_hosts.py: times all-reduces, checks results, and counts its host's bytes.

RANK=... WORLD_SIZE=... hosts_rank.py ROUNDS BYTES
"""

import json
import sys
import time

import torch
import torch.distributed as dist

import atp.torch


def bytes_sent():
    """Bytes sent over this host's link by all its processes."""
    with open("/proc/net/dev") as file:
        line = next(line for line in file if line.strip().startswith("eth0:"))
    return int(line.split(":")[1].split()[8])


def measure(size):
    """Seconds and bytes of one all-reduce."""
    ranks, values = dist.get_world_size(), size // 4
    tensor = torch.full((values,), 2.0**-100)
    dist.barrier()
    sent, begin = bytes_sent(), time.perf_counter()
    dist.all_reduce(tensor)
    seconds = time.perf_counter() - begin
    dist.barrier()  # until the other ranks of this host have sent as well
    assert torch.equal(tensor, torch.full((values,), 2.0**-100 * ranks)), "a wrong sum"
    return {"seconds": seconds, "sent": bytes_sent() - sent}


def main(rounds, size):
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    measure(int(size))  # warm-up
    found = [measure(int(size)) for _ in range(int(rounds))]
    in_memory = atp.torch.stats()["host_memory"]
    print(json.dumps({"rounds": found, "in_memory": in_memory}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
