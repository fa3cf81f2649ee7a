"""One rank of experiments.fsdp: trains the same network over two backends, step by step.

RANK=... WORLD_SIZE=... rank.py RESULT STEPS WIDTH BLOCKS
"""

import datetime
import json
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import atp.torch  # noqa: F401

BATCH = 8  # per rank: communication is what is measured
RATE = 0.1


def network(width, blocks):
    torch.manual_seed(1)
    return torch.nn.Sequential(
        *(
            torch.nn.Sequential(
                torch.nn.Linear(width, 4 * width),
                torch.nn.GELU(),
                torch.nn.Linear(4 * width, width),
            )
            for _ in range(blocks)
        )
    )


def batch_of(rank, step, width):
    generator = torch.Generator().manual_seed(1000 * step + rank)
    return torch.randn(BATCH, width, generator=generator)


def train_step(model, optimizer, batch):
    optimizer.zero_grad()
    loss = (model(batch) - batch).square().mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


class Training:
    """The network, sharded over a group."""

    def __init__(self, group, width, blocks):
        mesh = DeviceMesh.from_group(group, "cpu")
        self.model = network(width, blocks)
        for block in self.model:
            fully_shard(block, mesh=mesh)
        fully_shard(self.model, mesh=mesh)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE)
        self.width = width

    def step(self, number):
        """(seconds on the slowest rank, mean loss of all ranks)."""
        batch = batch_of(dist.get_rank(), number, self.width)
        dist.barrier()
        begin = time.perf_counter()
        loss = train_step(self.model, self.optimizer, batch)
        took = torch.tensor([time.perf_counter() - begin], dtype=torch.float64)
        dist.all_reduce(took, op=dist.ReduceOp.MAX)
        dist.all_reduce(loss)
        return took.item(), loss.item() / dist.get_world_size()


def losses_of_one_rank(steps, width, blocks):
    model = network(width, blocks)
    optimizer = torch.optim.SGD(model.parameters(), lr=RATE)
    batches = [
        torch.cat([batch_of(rank, step, width) for rank in range(dist.get_world_size())])
        for step in range(steps)
    ]
    return [train_step(model, optimizer, batch).item() for batch in batches]


def main(result, steps, width, blocks):
    steps, width, blocks = int(steps), int(width), int(blocks)
    torch.set_num_threads(1)
    dist.init_process_group("atp", timeout=datetime.timedelta(seconds=300))
    groups = {"atp": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    trainings = {name: Training(group, width, blocks) for name, group in groups.items()}
    seconds = {name: [] for name in groups}
    expected = losses_of_one_rank(steps + 1, width, blocks)
    for number in range(steps + 1):  # the first step connects
        for name, training in trainings.items():
            took, loss = training.step(number)
            close = abs(loss - expected[number]) <= 1e-4 * abs(expected[number])
            assert close, f"step {number} over {name}: loss {loss}, alone {expected[number]}"
            if number > 0:
                seconds[name].append(took)
    parameters = 4 * sum(p.numel() for p in network(width, blocks).parameters())
    share = (dist.get_world_size() - 1) / dist.get_world_size()
    if dist.get_rank() == 0:
        # Two all-gathers and a reduce-scatter.
        found = {"seconds": seconds, "bytes": 3 * share * parameters}
        Path(result).write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
