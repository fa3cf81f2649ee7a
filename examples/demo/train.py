"""One process of a job that trains a small CNN on Fashion-MNIST with DistributedDataParallel.

    atp run -n 4 -- python examples/demo/train.py --backend atp --out out/demo/atp

Only the name of the backend depends on the network. Rank 0 writes progress.jsonl during training,
and result.json at the end.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import time

import fashion_mnist
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import atp.torch

BATCH = 64  # images per worker and step
LEARNING_RATE = 0.05
WARM_UP_STEPS = 200


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def train(model: nn.Module, options: argparse.Namespace, progress) -> tuple[list, list]:
    """Returns the loss of every step on this rank's images, with its time."""
    images, labels = fashion_mnist.load("train")
    images, labels = images[: options.images], labels[: options.images]
    rank, world_size = dist.get_rank(), dist.get_world_size()
    steps = options.epochs * -(-options.images // (BATCH * world_size))
    optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)
    # The learning rate goes up and then down. Without the slow start, training is so unstable at
    # first that rounding errors of 1e-8 grow to visible differences within 30 steps, on any
    # network.
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: np.interp(step, [-1, WARM_UP_STEPS, steps], [0, 1, 0])
    )
    losses, times = [], []
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        for batch in order[rank::world_size].split(BATCH):
            optimizer.zero_grad()
            logits = model(fashion_mnist.normalized(images[batch]))
            loss = nn.functional.cross_entropy(logits, labels[batch])
            loss.backward()
            optimizer.step()
            schedule.step()
            losses.append(loss.item())
            times.append(time.time())
            progress({"step": len(losses), "steps": steps, "epoch": epoch + 1, "loss": losses[-1]})
    return losses, times


@torch.no_grad()
def test(model: nn.Module) -> float:
    """The accuracy on the 10,000 test images, of which each rank evaluates a part."""
    images, labels = fashion_mnist.load("t10k")
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right = torch.zeros(1, dtype=torch.int64)
    for batch in torch.arange(rank, len(images), world_size).split(500):
        found = model(fashion_mnist.normalized(images[batch])).argmax(dim=1)
        right += (found == labels[batch]).sum()
    dist.all_reduce(right)
    return right.item() / len(images)


def digest(model: nn.Module) -> str:
    weights = [p.detach().numpy().tobytes() for p in model.parameters()]
    return hashlib.sha256(b"".join(weights)).hexdigest()


def gather(thing) -> list:
    """`thing` of every rank, on every rank."""
    things = [None] * dist.get_world_size()
    dist.all_gather_object(things, thing)
    return things


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", choices=["atp", "gloo"], default="atp")
    parser.add_argument("--images", type=int, default=60_000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    options = parser.parse_args()

    dist.init_process_group(options.backend)
    torch.manual_seed(1)
    model = make_model()
    ddp = DistributedDataParallel(model)

    report = None
    if dist.get_rank() == 0:
        options.out.mkdir(parents=True, exist_ok=True)
        report = (options.out / "progress.jsonl").open("w", buffering=1)

    def progress(record: dict) -> None:
        if report:
            report.write(json.dumps(record) + "\n")

    dist.barrier()
    begin = time.time()
    losses, times = train(ddp, options, progress)
    seconds = time.time() - begin

    by_rank = gather(losses)
    result = {
        "parameters": sum(p.numel() for p in model.parameters()),
        "begin": begin,
        "seconds": seconds,
        "times": times,
        "losses": [sum(step) / len(step) for step in zip(*by_rank, strict=True)],
        "accuracy": test(model),
        "digests": gather(digest(model)),
        "stats": gather(atp.torch.stats() if options.backend == "atp" else None),
    }
    if report:
        (options.out / "result.json").write_text(json.dumps(result))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    # Threads of torch's Gloo can outlive their group. One that takes the interpreter's lock during
    # shutdown aborts the process. Everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
