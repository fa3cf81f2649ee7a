"""One rank of test_hierarchy.py: the last rank comes late to the calls that the arguments name;
marks what is said in each, and prints for whom this rank has waited.
"""

import json
import sys
import time

import torch
import torch.distributed as dist

import atp.torch

LATE_S = 2

dist.init_process_group("atp")
late = dist.get_world_size() - 1
calls = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(1000)),
    "barrier": dist.barrier,
    "broadcast": lambda: dist.broadcast(torch.ones(1000), late),
}
for name in sys.argv[1:]:
    call = calls[name]
    call()  # there are connections
    dist.barrier()
    if dist.get_rank() == late:
        time.sleep(LATE_S)
    print(f"[{name}]", file=sys.stderr, flush=True)
    call()
    time.sleep(0.3)  # the line that it is over may come a moment later
print("[end]", file=sys.stderr, flush=True)
print(json.dumps(atp.torch.stats()["waited_s"]), flush=True)
dist.destroy_process_group()
