"""One rank of training.py: trains a model once per seed and kind of sum.

    atp run -n W -- python -m experiments.accuracy.training_rank RESULT TASK DTYPE STEPS SEEDS

Appends a line of JSON to RESULT per training run, and per inspection of the gradients.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from experiments.accuracy.tasks import Narrow, loss_of, tasks
from experiments.accuracy.ways import WAYS, Ways

LAST = 20  # steps over which the final loss is averaged
LOOKS = 5  # inspections of the gradients, spread over a training run


class Master:
    """Adam on float32 copies of the parameters, as usual for narrow types."""

    def __init__(self, model, rate, steps):
        self._parameters = [*model.parameters()]
        self._copies = [p.detach().float().clone() for p in self._parameters]
        self._adam = torch.optim.Adam(self._copies, lr=rate)
        self._rate = torch.optim.lr_scheduler.LinearLR(self._adam, 1, 0.1, steps)

    def step(self):
        for copy, parameter in zip(self._copies, self._parameters, strict=True):
            copy.grad = parameter.grad.float()
        self._adam.step()
        self._rate.step()
        with torch.no_grad():
            for copy, parameter in zip(self._copies, self._parameters, strict=True):
                parameter.copy_(copy)


class Trainer:
    def __init__(self, task, narrow, steps):
        self.task, self.narrow, self.steps = task, narrow, steps
        self.ways = Ways()
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.looks = {round((steps - 1) * look / (LOOKS - 1)) for look in range(LOOKS)}

    def train(self, way, seed, look):
        """The row of one training run; `look` is called with the gradients at some steps."""
        torch.manual_seed(seed)
        model = self.task.make()
        if self.narrow:
            model = Narrow(model)
        parallel = DistributedDataParallel(model, process_group=self.ways.group(way))
        self.ways.register(parallel, way)
        optimizer, data = Master(model, self.task.rate, self.steps), self.task.data(seed)
        share = self.task.batch // self.ranks
        losses = []
        for step in range(self.steps):
            inputs, targets = data.batch(step, self.task.batch)
            own = slice(self.rank * share, (self.rank + 1) * share)
            if look and step in self.looks:
                with parallel.no_sync():
                    loss_of(parallel(inputs[own]), targets[own]).backward()
                look([p.grad for p in model.parameters()], step)
                parallel.zero_grad()
            loss = loss_of(parallel(inputs[own]), targets[own])
            parallel.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        final = torch.tensor([sum(losses[-LAST:]) / len(losses[-LAST:])], dtype=torch.float64)
        dist.all_reduce(final, group=self.ways.gloo)
        test_loss, accuracy = self._test(model, data)
        return {"way": way, "seed": seed, "train_loss": final.item() / self.ranks,
                "test_loss": test_loss, "accuracy": accuracy}  # fmt: skip

    @torch.no_grad()
    def _test(self, model, data):
        """Loss and accuracy; each rank evaluates its part."""
        found = torch.zeros(3, dtype=torch.float64)
        for number, (inputs, targets) in enumerate(data.test()):
            if number % self.ranks == self.rank:
                logits = model(inputs)
                count = targets.numel()
                right = (logits.argmax(-1) == targets).sum().item()
                loss = loss_of(logits, targets).item() * count
                found += torch.tensor([loss, right, count], dtype=torch.float64)
        dist.all_reduce(found, group=self.ways.gloo)
        loss, right, count = found.tolist()
        return loss / count, right / count

    def compare(self, gradients, step):
        """Rows with the distance of these gradients' sum from the exact one, by kind of sum."""
        exact = self.ways.exact_sums(gradients)
        there = exact != 0
        for way in WAYS:
            summed = self.ways.sums(gradients, way)
            yield {
                "way": way,
                "step": step,
                "error": ((summed - exact).norm() / exact.norm()).item(),
                "nonzero": there.sum().item(),
                "vanished": (there & (summed == 0)).sum().item(),
            }


def main(result, name, dtype, steps, seeds):
    torch.set_num_threads(1)
    dist.init_process_group("atp")
    steps, seeds, rank = int(steps), int(seeds), dist.get_rank()
    about = {"task": name, "dtype": dtype, "world_size": dist.get_world_size(), "steps": steps}
    trainer = Trainer(tasks()[name], dtype == "bfloat16", steps)

    def write(kind, row):
        if rank == 0:
            with open(result, "a") as out:
                out.write(json.dumps({"kind": kind, **about, **row}) + "\n")

    def look(gradients, step):
        for row in trainer.compare(gradients, step):
            write("gradients", row)

    for seed in range(seeds):
        for way in WAYS:
            begin = time.monotonic()
            # Gradients are inspected along one trajectory, the same for all kinds of sums.
            row = trainer.train(way, seed, look if way == "gloo_float32" and seed == 0 else None)
            write("training", row)
            if rank == 0:
                took = time.monotonic() - begin
                which = f"{name}, {dtype}, {about['world_size']} ranks, seed {seed}, {WAYS[way]}"
                found = f"loss {row['train_loss']:.4f}, accuracy {row['accuracy']:.2%}"
                print(f"# {which}: {found}, {took:.0f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Threads of torch's Gloo can outlive their group. Everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
