"""One rank of costs.py: times small all-reduces in many shapes, on the job's own route.

costs_rank.py RESULT [SECONDS]

Writes seconds per call by case, as JSON. It also runs on checkouts without formats, so that
costs.py can compare with an older one.
"""

import contextlib
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch

# The largest size of a small operation (docs/inside/protocol §5), and multiples.
SWEEP = (1, 2, 4, 8)


def one(count, group=None):
    tensor = torch.ones(count)

    def call():
        dist.all_reduce(tensor, group=group)

    return call


def coalesced(count, tensors):
    parts = [torch.ones(count) for _ in range(tensors)]

    def call():
        dist.all_reduce_coalesced(parts)

    return call


def queued(counts):
    """All operations in flight at once."""
    tensors = [torch.ones(count) for count in counts]

    def call():
        for work in [dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    return call


def cases(ranks):
    yield "scalar", one(1)
    yield "64 KiB", one(2**14)
    yield "100 KiB", one(100 * 2**8)
    yield "100 x 1 KiB, coalesced", coalesced(2**8, 100)
    yield "64 in flight, one length", queued([2**13] * 64)
    yield "64 in flight, 64 lengths", queued(range(2**13 - 32, 2**13 + 32))
    small = max(16, 4096 // ranks)
    yield "64 in flight, small", queued([small] * 64)
    yield "64 in flight, just not small", queued([small + 1] * 64)
    with contextlib.suppress(TypeError):  # an older checkout
        exact = dist.new_group(pg_options=atp.torch.Options(exact=True))
        for times in SWEEP:
            yield f"{times} x small, blocks", one(small * times + 1)
            yield f"{times} x small, exact", one(small * times + 1, exact)


def seconds_per_call(call, seconds):
    """The number of calls, chosen by rank 0 for all ranks."""
    call()
    begin = time.perf_counter()
    for _ in range(5):
        call()
    calls = torch.tensor(max(5.0, seconds / (time.perf_counter() - begin) * 5))
    dist.broadcast(calls, 0)
    begin = time.perf_counter()
    for _ in range(int(calls)):
        call()
    return (time.perf_counter() - begin) / int(calls)


def main():
    result = Path(sys.argv[1])
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 0.3
    dist.init_process_group("atp")
    took = {name: seconds_per_call(call, seconds) for name, call in cases(dist.get_world_size())}
    if dist.get_rank() == 0:
        result.write_text(json.dumps(took))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
