"""One rank of real_training.py: trains a CNN twice, over atp and over Gloo, step by step in turn.

    RANK=... WORLD_SIZE=... python -m experiments.papers.training_rank RESULT SEED STEPS EVERY

Both models have the same seed and get the same images. A step's time includes the computing, and
counts for the path that it used; so whatever slows the machine down slows both. Every EVERY steps
the models are tested, outside the measured time. Rank 0 writes a JSON list with a row per test.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from experiments.accuracy.tasks import loss_of, tasks
from experiments.accuracy.training_rank import Master
from experiments.accuracy.ways import Ways

PATHS = ("int32", "gloo_float32")


class Run:
    """A model that trains over one path."""

    def __init__(self, task, ways, way, seed, steps):
        torch.manual_seed(seed)
        self.model, self.way = task.make(), way
        self._parallel = DistributedDataParallel(self.model, process_group=ways.group(way))
        ways.register(self._parallel, way)
        self._optimizer = Master(self.model, task.rate, steps)
        self.seconds = 0.0

    def step(self, inputs, targets):
        dist.barrier()
        begin = time.perf_counter()
        loss = loss_of(self._parallel(inputs), targets)
        self._parallel.zero_grad()
        loss.backward()
        self._optimizer.step()
        self.seconds += time.perf_counter() - begin

    @torch.no_grad()
    def test(self, data, gloo):
        """Loss and accuracy on the test set; each rank evaluates its part."""
        found = torch.zeros(3, dtype=torch.float64)
        for number, (inputs, targets) in enumerate(data.test()):
            if number % dist.get_world_size() == dist.get_rank():
                logits, count = self.model(inputs), targets.numel()
                right = (logits.argmax(-1) == targets).sum().item()
                loss = loss_of(logits, targets).item() * count
                found += torch.tensor([loss, right, count], dtype=torch.float64)
        dist.all_reduce(found, group=gloo)
        loss, right, count = found.tolist()
        return {"test_loss": loss / count, "accuracy": right / count}


def main(result, seed, steps, every):
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    task, ways = tasks()["cnn"], Ways()
    runs, data = [Run(task, ways, way, seed, steps) for way in PATHS], task.data(seed)
    share = task.batch // dist.get_world_size()
    own = slice(dist.get_rank() * share, (dist.get_rank() + 1) * share)
    rows = []
    for step in range(1, steps + 1):
        inputs, targets = data.batch(step - 1, task.batch)
        for run in runs:
            run.step(inputs[own], targets[own])
            if step % every == 0:
                tested = run.test(data, ways.gloo)
                rows.append({"way": run.way, "step": step, "seconds": run.seconds, **tested})
    if dist.get_rank() == 0:
        Path(result).write_text(json.dumps(rows))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
    # Threads of torch's Gloo can outlive their group. Everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
