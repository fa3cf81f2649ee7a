"""One rank of the demo: replays a layer on every mesh, then trains the model on every mesh.

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

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.calibrate import compare

MODEL = TransformerConfig(hidden=256, heads=8, layers=2, vocabulary=256, positions=text.SEQUENCE)


def train(shape: tuple[int, int], tokens: torch.Tensor, steps: int) -> dict:
    """Losses, and seconds a step, of the model that all meshes begin with."""
    torch.manual_seed(0)
    mesh = init_mesh(*shape, algorithm="ring")
    model = parallelize(Transformer(MODEL), mesh=mesh, chunks=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, begin = [], time.perf_counter()
    for step in range(steps):
        inputs, targets = text.batch(tokens, step)
        loss = vocabulary_parallel_cross_entropy(model(inputs), targets, mesh)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    seconds = (time.perf_counter() - begin) / steps
    mesh.close()
    return {"mesh": shape, "losses": losses, "seconds": seconds}


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
    if dist.get_rank() == 0:
        whole = {"replayed": [dataclasses.asdict(one) for one in replayed], "trained": trained}
        pathlib.Path(result).write_text(json.dumps(whole))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
