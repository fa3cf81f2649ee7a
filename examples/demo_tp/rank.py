"""One rank of the demo: runs a layer's communication, then trains the model, on every mesh.

RANK=... rank.py CLUSTER CONFIG RESULT STEPS atp|transformers
"""

import dataclasses
import json
import pathlib
import statistics
import sys
import time

import text
import torch
import torch.distributed as dist
from torch.distributed.tensor.parallel import parallelize_module

import atp.torch  # noqa: F401 (the ring)
from atp.planner import plan
from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    parallelize_module_plan,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.calibrate import compare, device_speed


class Ours:
    """A small Llama of atp.tensor_parallel: each row of a mesh has a part of the logits."""

    chunks = 2
    is_of_transformers = False

    def __init__(self, config: dict):
        self._config = TransformerConfig(
            hidden=config["hidden_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            layers=config["num_hidden_layers"],
            ffn=config["intermediate_size"],
            vocabulary=config["vocab_size"],
            gated=True,
            rms_norm=True,
            rotary=True,
            fused_qkv=False,
            bias=False,
            tied_head=False,
        )

    def make(self) -> torch.nn.Module:
        torch.manual_seed(0)  # the same model on all meshes
        return Transformer(self._config)

    def loss(self, model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return vocabulary_parallel_cross_entropy(model(inputs), targets)

    def loss_of_whole(self, model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(inputs), targets)


class Theirs:
    """The same Llama of the library transformers, unmodified: every rank gets all logits."""

    chunks = 1
    is_of_transformers = True

    def __init__(self, config: dict):
        from transformers import LlamaConfig

        self._config = LlamaConfig(
            **{key: value for key, value in config.items() if key != "model_type"},
            bos_token_id=1,
            eos_token_id=2,
        )

    def make(self) -> torch.nn.Module:
        from transformers import LlamaForCausalLM

        torch.manual_seed(0)
        return LlamaForCausalLM(self._config)

    def loss(self, model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return cross_entropy(model(input_ids=inputs).logits, targets)

    loss_of_whole = loss


MODELS = {"atp": Ours, "transformers": Theirs}


def cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def predict_steps(cluster: str, config: str, kind, speed, folder: pathlib.Path) -> dict:
    """The planner's seconds per step by mesh, with the file's links and a rank's speed."""
    products, memory = f"{speed.products / 1e9:.6g} GFLOP/s", f"{speed.memory / 1e6:.6g} MB/s"
    device = f"device: {{products: {products}, memory: {memory}}}\n"
    with_device = folder / "cluster-and-device.yaml"
    with_device.write_text(pathlib.Path(cluster).read_text() + device)
    answer = plan(
        with_device,
        config,
        batch=text.BATCH,
        sequence=text.SEQUENCE,
        element_bytes=4,
        collectives=["ring"],
        chunks=kind.chunks,
        by_heads=kind.is_of_transformers,
        whole_logits=kind.is_of_transformers,
        runtime=True,
    )
    return {one.mesh: one.step.seconds for one in (answer, *answer.runners_up)}


def train(kind, shape: tuple[int, int], tokens: torch.Tensor, steps: int) -> dict:
    """Losses and seconds per step on a mesh."""
    mesh = init_mesh(*shape, algorithm="ring")
    model = parallelize(kind.make(), mesh=mesh, chunks=kind.chunks)
    found = take_steps(model, kind.loss, tokens, steps)
    mesh.close()
    return {"mesh": shape, **found}


def train_by_torch(kind, tokens: torch.Tensor, steps: int) -> dict:
    """The same with torch's own tensor parallelism, on a one-dimensional mesh over our ring."""
    mesh = init_mesh(dist.get_world_size(), 1, algorithm="ring")
    model = kind.make()
    styles = parallelize_module_plan(model, dist.get_world_size())
    model = parallelize_module(model, mesh.device_mesh["tp1"], styles)
    found = take_steps(model, kind.loss_of_whole, tokens, steps)
    mesh.close()
    return found


def take_steps(model, loss_of, tokens: torch.Tensor, steps: int) -> dict:
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    losses, seconds = [], []
    for step in range(steps):
        begin = time.perf_counter()
        loss = loss_of(model, *text.batch(tokens, step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        seconds.append(time.perf_counter() - begin)
    # The first step connects.
    return {"losses": losses, "seconds": statistics.median(seconds[1:])}


def main(cluster: str, config: str, result: str, steps: str, library: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    kind = MODELS[library](json.loads(pathlib.Path(config).read_text()))
    replayed = compare(cluster, config, "ring", text.BATCH, text.SEQUENCE)
    speed = device_speed(3)  # all ranks at once
    tokens = text.tokens()
    trained = []
    for one in replayed:
        trained.append(train(kind, one.mesh, tokens, int(steps)))
        if dist.get_rank() == 0:
            print(f"trained on mesh {one.mesh}: loss {trained[-1]['losses'][-1]:.3f}", flush=True)
    by_torch = train_by_torch(kind, tokens, int(steps))
    if dist.get_rank() == 0:
        file = pathlib.Path(result)
        predicted = predict_steps(cluster, config, kind, speed, file.parent)
        for one in trained:
            one["predicted"] = predicted[one["mesh"]]
        whole = {"replayed": [dataclasses.asdict(one) for one in replayed], "trained": trained}
        whole["torch"] = by_torch
        file.write_text(json.dumps(whole))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
