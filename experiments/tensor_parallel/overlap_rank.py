"""One rank of overlap.py: trains a block in chunks, and traces where it waits.

RANK=... overlap_rank.py RESULT HIDDEN STEPS CHUNKS...
"""

import json
import pathlib
import sys
import time

import torch
import torch.distributed as dist

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import TransformerConfig, init_mesh, parallelize
from atp.tensor_parallel.dimension import Flight
from atp.tensor_parallel.transformer import Transformer

BATCH, SEQUENCE, LAYERS = 8, 128, 2


class Trace:
    """Waits of this rank, as (begin, end) relative to the start of the step."""

    def __init__(self):
        self.waits: list[tuple[float, float]] = []
        self.begin = 0.0
        real = Flight.land

        def land(flight):
            begin = time.perf_counter()
            result = real(flight)
            self.waits.append((begin - self.begin, time.perf_counter() - self.begin))
            return result

        Flight.land = land

    def start(self) -> None:
        self.waits = []
        dist.barrier()
        self.begin = time.perf_counter()


def run(trace: Trace, hidden: int, chunks: int, steps: int) -> dict:
    """The fastest step, which was disturbed least: its seconds, and those spent waiting."""
    torch.manual_seed(0)
    mesh = init_mesh(2, 1, algorithm="ring")
    config = TransformerConfig(hidden=hidden, heads=8, layers=LAYERS, vocabulary=64,
                               positions=SEQUENCE)  # fmt: skip
    model = parallelize(Transformer(config), mesh=mesh, chunks=chunks)
    tokens = torch.randint(64, (BATCH, SEQUENCE))
    taken = []
    for _ in range(steps + 1):
        trace.start()
        model(tokens).square().mean().backward()
        step = time.perf_counter() - trace.begin
        taken.append((step, sum(end - begin for begin, end in trace.waits), trace.waits))
    traffic = mesh.first.traffic.total() / (steps + 1)
    mesh.close()
    step, waited, waits = min(taken[1:], key=lambda one: one[0])
    return {
        "chunks": chunks,
        "seconds": step,
        "exposed": waited,
        "bytes": traffic,
        "trace": waits,
    }


def main(result: str, hidden: str, steps: str, *chunks: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    trace = Trace()
    found = [run(trace, int(hidden), int(number), int(steps)) for number in chunks]
    if dist.get_rank() == 0:
        pathlib.Path(result).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
