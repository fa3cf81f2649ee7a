"""One rank of magnitudes.py: sums blocks with values of all magnitudes, and measures the errors.

atp run -n W -- python -m experiments.accuracy.magnitudes_rank RESULT BLOCKS
"""

import json
import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from experiments.accuracy.ways import WAYS, Ways

BLOCK = 256
POWERS = 40  # a block's values are 2^0 to 2^-POWERS times its largest


def powers(blocks):
    """The power of each value relative to its block's largest; the same on every rank."""
    return np.tile(-(np.arange(BLOCK) * (POWERS + 1) // BLOCK), blocks)


def inputs(rank, blocks):
    """Positive values, so that nothing cancels and relative errors are meaningful."""
    mantissas = np.random.default_rng(rank).uniform(1, 2, blocks * BLOCK)
    return (mantissas * np.exp2(powers(blocks).astype(np.float64))).astype(np.float32)


def measure(ways, rank, blocks):
    """Rows of (way, power, median and largest relative error)."""
    own = torch.from_numpy(inputs(rank, blocks))
    exact = ways.exact_sums([own]).numpy()
    rows = []
    for way in WAYS:
        errors = np.abs(ways.sums([own], way).numpy() - exact) / exact
        for power in range(0, -POWERS - 1, -1):
            of_power = errors[powers(blocks) == power]
            rows.append((way, power, float(np.median(of_power)), float(of_power.max())))
    return rows


def main(result, blocks):
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    rows = measure(Ways(), dist.get_rank(), int(blocks))
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Threads of torch's Gloo can outlive their group. Everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
