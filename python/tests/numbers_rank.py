"""A rank of test_numbers.py: sums the drawn cases one by one, then all at once in another order.

    atp run -n W -- python numbers_rank.py FOLDER SEED COUNT

Writes FOLDER/RANK.npz: a result for each case, and which cases had different bits the second time.
"""

import os
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

import atp.torch

# numbers_cases.py is next to this file; tests import it as a part of their package.
sys.path.insert(0, str(Path(__file__).parent))
import numbers_cases as cases  # noqa: E402

TYPES = {name: getattr(torch, name) for name in cases.FLOATS + cases.INTEGERS}
OPTIONS = {"int32": {}, "int16": {"wire": "int16"}, "exact": {"exact": True}}


def operation(case):
    if case.op == "PREMUL_SUM":
        return dist._make_nccl_premul_sum(cases.FACTOR)
    return getattr(dist.ReduceOp, case.op)


def start(case, group, rank):
    """The tensors, and the work that sums them."""
    tensors = [torch.from_numpy(one.copy()).to(TYPES[case.kind]) for one in case.inputs(rank)]
    if len(tensors) == 1:
        work = dist.all_reduce(tensors[0], operation(case), group=group, async_op=True)
    else:
        work = dist.all_reduce_coalesced(tensors, operation(case), group=group, async_op=True)
    return tensors, work


def result(tensors) -> np.ndarray:
    """One array; float types as float32, bool as bytes."""
    whole = torch.cat(tensors)
    if whole.is_floating_point():
        return whole.float().numpy()
    return whole.to(torch.uint8).numpy() if whole.dtype == torch.bool else whole.numpy()


def main(folder, seed, count):
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    every = [*range(world_size)]
    groups = {
        name: dist.new_group(every, pg_options=atp.torch.Options(**options))
        for name, options in OPTIONS.items()
    }
    todo = cases.drawn(int(seed), world_size, int(count)) + cases.a_thousandfold_a_step(world_size)
    results = []
    for case in todo:
        tensors, work = start(case, groups[case.group], rank)
        work.wait()
        results.append(result(tensors))
    # Backwards: no result may depend on earlier sums, nor on others in flight.
    again = [start(case, groups[case.group], rank) for case in reversed(todo)]
    for _, work in again:
        work.wait()
    seconds = [result(tensors) for tensors, _ in reversed(again)]
    differ = [
        number
        for number, (one, other) in enumerate(zip(results, seconds, strict=True))
        if one.tobytes() != other.tobytes()
    ]
    np.savez(Path(folder, f"{rank}.npz"), *results, differ=np.array(differ, np.int64))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Threads of torch's Gloo can outlive their group; everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
