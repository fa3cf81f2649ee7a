"""One rank of formats.py: times one all-reduce per format alternately, and checks each result.

RANK=... WORLD_SIZE=... ATP_ROUTE=... formats_rank.py RESULT ROUNDS BYTES
"""

import dataclasses
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch


@dataclasses.dataclass(frozen=True)
class Way:
    options: dict | None = None  # for atp's group; None: Gloo
    dtype: torch.dtype = torch.float32
    bytes_per_value: int = 4

    @property
    def is_ring(self):
        return self.options is None


WAYS = {
    "fixed": Way({"scale": "fixed"}),
    "blocks": Way({}),
    "int16": Way({"wire": "int16"}, bytes_per_value=2),
    "gloo float32": Way(),
    "gloo float16": Way(dtype=torch.float16, bytes_per_value=2),
}


def make_group(way):
    if way.options is None:
        return dist.new_group(backend="gloo")
    return dist.new_group(backend="atp", pg_options=atp.torch.Options(**way.options))


def seconds(way, group, count):
    """Seconds on the slowest rank."""
    ranks = dist.get_world_size()
    # A sixteenth of the rank's number, so that sums stay within the fixed scale.
    tensor = torch.full((count,), (dist.get_rank() + 1) / 16, dtype=way.dtype)
    dist.barrier()
    begin = time.perf_counter()
    dist.all_reduce(tensor, group=group)
    took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
    assert tensor.eq(ranks * (ranks + 1) / 32).all(), "a wrong sum"
    dist.all_reduce(took, op=dist.ReduceOp.MAX)
    return took.item()


def sent_for_one(way, group, count):
    """Bytes of one all-reduce without repeats; 0 for Gloo, which does not count them."""
    if way.options is None:
        return 0
    before = atp.torch.stats(group)["bytes_sent"]
    seconds(way, group, count)
    return atp.torch.stats(group)["bytes_sent"] - before


def main():
    result, rounds, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    dist.init_process_group("gloo")
    groups = {name: make_group(way) for name, way in WAYS.items()}
    count = size // 4
    times = {name: [] for name in WAYS}
    for turn in range(rounds + 1):
        for name, way in WAYS.items():
            took = seconds(way, groups[name], count)
            if turn > 0:  # the first is a warm-up
                times[name].append(took)
    sent = {name: sent_for_one(way, groups[name], count) for name, way in WAYS.items()}
    if dist.get_rank() == 0:
        result.write_text(json.dumps({name: (times[name], sent[name]) for name in WAYS}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
