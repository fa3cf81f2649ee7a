"""A rank of torch: runs all-reduces over atp and Gloo for conductor.py, and checks each result.

RANK=... WORLD_SIZE=... [ATP_ROUTE=...] torch_rank.py SOCKET JOB WAY,...
"""

import os
import socket
import sys
import time

import torch
import torch.distributed as dist

import atp.torch
from experiments.bench.ways import FLOAT32_BYTES, WAYS

# Numbers that differ between elements and have exact sums in every format.
PATTERN = 31
SCALE = 1 / 16


class Rank:
    def __init__(self, ways):
        self.groups = {name: self._make_group(name, WAYS[name]) for name in ways}
        self.tensors = []
        self.work = ()

    @staticmethod
    def _make_group(name, way):
        options = atp.torch.Options(**way.options) if way.backend == "atp" else None
        group = dist.new_group(backend=way.backend, pg_options=options)
        # Without shared memory, atp would fall back to the network.
        if options and atp.torch.stats(group)["host_memory"] != way.in_memory:
            sys.exit(f"rank {dist.get_rank()}: '{name}' would not run as named")
        return group

    def prepare(self, name, size, iterations):
        self.group = self.groups[name]
        count = int(size) // FLOAT32_BYTES
        self.pattern = (torch.arange(count) % PATTERN - PATTERN // 2) * SCALE
        mine = (self.pattern * (dist.get_rank() + 1)).to(getattr(torch, WAYS[name].dtype))
        self.tensors = [mine.clone() for _ in range(int(iterations))]

    def go(self, begin_ns):
        """The time at which it was done, by the clock that all ranks share."""
        time.sleep(max(0, int(begin_ns) - time.monotonic_ns()) / 1e9)
        for tensor in self.tensors:
            dist.all_reduce(tensor, group=self.group)
        return time.monotonic_ns()

    def check(self):
        ranks = dist.get_world_size()
        wanted = self.pattern * (ranks * (ranks + 1) // 2)
        for tensor in self.tensors:
            if not torch.equal(tensor.float(), wanted):
                sys.exit(f"rank {dist.get_rank()}: wrong sums in {(tensor != wanted).sum()} values")


def main():
    path, job, ways = sys.argv[1], sys.argv[2], sys.argv[3].split(",")
    dist.init_process_group("gloo")
    rank = Rank(ways)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    file = connection.makefile("rw", encoding="ascii", newline="\n")

    def say(line):
        file.write(line + "\n")
        file.flush()

    say(f"hello torch {job} {dist.get_rank()}")
    for line in file:
        word, *words = line.split()
        if word == "prepare":
            rank.prepare(words[0].replace("_", " "), *words[1:])
            say("ready")
        elif word == "go":
            done = rank.go(words[0])
            rank.check()
            say(f"done {done}")
        else:
            break
    dist.destroy_process_group()
    # The measurement does not include what torch's threads do at the interpreter's end.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
