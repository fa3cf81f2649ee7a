"""One rank of one_digest: computes the sums of inputs.py, or trains, and hashes the results.

    rank.py FOLDER BACKEND sums ROUNDS ORDER SPLIT     ORDER: whose inputs each rank uses, "0123"
    rank.py FOLDER BACKEND train BEGIN END             BEGIN > 0: resumes FOLDER/checkpoint.pt

Uses torchrun's variables. Writes FOLDER/rank-RANK.json.
"""

import hashlib
import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

import atp.torch
from experiments.one_digest.inputs import ROUND

CHECKPOINT = 10  # the step at which it is written, and after which results count


class Hash:
    """A hash of results in operation order, independent of the product's own digest."""

    def __init__(self):
        self._sha = hashlib.sha256()

    def add(self, tensor):
        self._sha.update(tensor.contiguous().view(torch.uint8).numpy().tobytes())

    def text(self):
        return self._sha.hexdigest()[:32]


def sums(folder, rounds, order, split):
    """Runs one round, with all operations in flight at once."""
    rank, found, groups = dist.get_rank(), Hash(), {}
    if dist.get_backend() == "atp":
        groups["exact"] = dist.new_group(pg_options=atp.torch.Options(exact=True))
        groups["int16"] = dist.new_group(pg_options=atp.torch.Options(wire="int16"))
    source = int(order[rank])
    for number in range(int(rounds)):
        tensors, works = [], []
        for place, operation in enumerate(ROUND):
            tensor = operation.input(100 * number + place, source)
            tensors.append(tensor)
            # Gloo has no average.
            name = operation.op if groups else operation.op.replace("AVG", "SUM")
            op, group = getattr(dist.ReduceOp, name), groups.get(operation.way)
            for piece in operation.pieces(tensor, split == "split"):
                works.append(dist.all_reduce(piece, op, group, async_op=True))
        for work in works:
            work.wait()
        for tensor in tensors:
            found.add(tensor)
        if rank == 0:
            (folder / "progress").write_text(str(number + 1))
    return {"sha": found.text()}


def train(folder, begin, end):
    begin, end = int(begin), int(end)
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(64, 300), torch.nn.Tanh(), torch.nn.Linear(300, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    checkpoint = folder / "checkpoint.pt"
    if begin > 0:
        saved = torch.load(checkpoint)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    found = Hash()
    for step in range(begin, end):
        if step == CHECKPOINT and begin == 0 and dist.get_rank() == 0:
            torch.save(
                {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, checkpoint
            )
        if step == CHECKPOINT and dist.get_backend() == "atp":
            atp.torch.digest(restart=True)  # a resumed run does not include what came before
        draw = torch.Generator().manual_seed(1000 * dist.get_rank() + step)
        x = torch.randn(16, 64, generator=draw)
        # Magnitudes rise and fall, because earlier steps must not affect later ones.
        loss = (model(x) - x[:, :10]).square().mean() * 10.0 ** (step % 7 - 3)
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters()]
        dist.all_reduce_coalesced(gradients)
        if step >= CHECKPOINT:
            for gradient in gradients:
                found.add(gradient)
        optimizer.step()
    for p in model.parameters():
        found.add(p.detach())
    return {"sha": found.text()}


def main(folder, backend, what, *words):
    folder = Path(folder)
    torch.set_num_threads(1)
    dist.init_process_group(backend)
    result = {"sums": sums, "train": train}[what](folder, *words)
    if backend == "atp":
        result["digest"] = atp.torch.digest()
        result["values_per_fragment"] = atp.torch.stats()["values_per_fragment"]
    (folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
    # Threads of torch's Gloo can outlive their group. Everything is written, so exit now.
    sys.stdout.flush()
    os._exit(0)
