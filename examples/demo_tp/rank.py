"""One rank of the demo: runs a layer's communication, then trains the model, on every mesh.

RANK=... rank.py CLUSTER CONFIG RESULT STEPS
"""

import dataclasses
import json
import pathlib
import sys
import time

import text
import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.calibrate import compare

TORCHS_PLAN = {
    **{f"blocks.*.attention.{name}": ColwiseParallel() for name in "qkv"},
    "blocks.*.attention.out": RowwiseParallel(),
    "blocks.*.feed_forward.up": ColwiseParallel(),
    "blocks.*.feed_forward.down": RowwiseParallel(),
}
MODEL = TransformerConfig(hidden=256, heads=8, layers=2, vocabulary=256, positions=text.SEQUENCE)


def train(shape: tuple[int, int], tokens: torch.Tensor, steps: int) -> dict:
    """Losses and seconds per step; the initial model is the same on all meshes."""
    torch.manual_seed(0)
    mesh = init_mesh(*shape, algorithm="ring")
    model = parallelize(Transformer(MODEL), mesh=mesh, chunks=2)
    found = take_steps(model, vocabulary_parallel_cross_entropy, tokens, steps)
    mesh.close()
    return {"mesh": shape, **found}


def train_by_torch(tokens: torch.Tensor, steps: int) -> dict:
    """The same with torch's own tensor parallelism, on a one-dimensional mesh over our ring.

    It cannot split a joint product for queries, keys and values, so it has different weights.
    """
    torch.manual_seed(0)
    mesh = init_mesh(dist.get_world_size(), 1, algorithm="ring")
    model = Transformer(dataclasses.replace(MODEL, fused_qkv=False))
    model = parallelize_module(model, mesh.device_mesh["tp1"], TORCHS_PLAN)
    found = take_steps(model, whole_loss, tokens, steps)
    mesh.close()
    return found


def whole_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def take_steps(model, loss_of, tokens: torch.Tensor, steps: int) -> dict:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, begin = [], time.perf_counter()
    for step in range(steps):
        inputs, targets = text.batch(tokens, step)
        loss = loss_of(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return {"losses": losses, "seconds": (time.perf_counter() - begin) / steps}


def main(cluster: str, config: str, result: str, steps: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    replayed = compare(cluster, config, "ring", text.BATCH, text.SEQUENCE)
    tokens = text.tokens()
    trained = []
    for one in replayed:
        trained.append(train(one.mesh, tokens, int(steps)))
        if dist.get_rank() == 0:
            print(f"trained on mesh {one.mesh}: loss {trained[-1]['losses'][-1]:.3f}", flush=True)
    by_torch = train_by_torch(tokens, int(steps))
    if dist.get_rank() == 0:
        whole = {"replayed": [dataclasses.asdict(one) for one in replayed], "trained": trained}
        whole["torch"] = by_torch
        pathlib.Path(result).write_text(json.dumps(whole))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
