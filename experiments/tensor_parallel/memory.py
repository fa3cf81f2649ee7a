"""Compares the memory that training steps use on every mesh with the planner's figures.

    .venv/bin/python -m experiments.tensor_parallel.memory [--only NAME]

Small GPTs and Llamas train on ranks of this machine, over Gloo. torch's profiler reports every
allocation, so the largest sum of a step is what a GPU's allocator would have given out. Gradients
are held, as in all micro-batches but the first. Optimizer states are counted, not kept: 8 bytes per
value in float32, 12 with half precision. Fails if a rank uses more than the planner says, or over
10 % less.
"""

import argparse
import dataclasses
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as processes

from atp.planner import plan
from atp.tensor_parallel import (
    Mesh,
    Transformer,
    TransformerConfig,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)

LEVEL = {"name": "host", "kind": "switch", "bandwidth": "10 Gbit/s per direction"}


@dataclasses.dataclass(frozen=True)
class Case:
    name: str
    gated: bool = True  # a Llama, otherwise a GPT
    hidden: int = 128
    layers: int = 3
    kv_heads: int = 8
    vocabulary: int = 256
    batch: int = 2
    sequence: int = 256
    half: bool = False
    meshes: tuple[tuple[int, int], ...] = ((1, 1), (2, 1), (2, 2))
    sequence_parallel: bool = False

    def config(self) -> TransformerConfig:
        kind = {"gated": True, "rms_norm": True, "rotary": True, "bias": False, "tied_head": False}
        return TransformerConfig(
            hidden=self.hidden, heads=8, kv_heads=self.kv_heads, layers=self.layers,
            vocabulary=self.vocabulary, positions=self.sequence, ffn=self.ffn,
            fused_qkv=not self.gated, **(kind if self.gated else {}),
        )  # fmt: skip

    @property
    def ffn(self) -> int:
        return self.hidden * 11 // 4 if self.gated else 4 * self.hidden

    def model(self) -> dict:
        """Its config.json."""
        if self.gated:
            return {
                "model_type": "llama", "hidden_size": self.hidden, "num_attention_heads": 8,
                "num_key_value_heads": self.kv_heads, "intermediate_size": self.ffn,
                "num_hidden_layers": self.layers, "vocab_size": self.vocabulary,
                "tie_word_embeddings": False,
            }  # fmt: skip
        return {
            "model_type": "gpt2", "n_embd": self.hidden, "n_head": 8, "n_layer": self.layers,
            "vocab_size": self.vocabulary, "n_positions": self.sequence,
        }  # fmt: skip


def allocated(step: Callable[[], None]) -> int:
    """The most bytes that are allocated at once while `step` runs, above those before it."""
    with torch.profiler.profile(profile_memory=True) as profile:
        step()
    now = most = 0
    events = [one for one in profile.profiler.kineto_results.events() if one.name() == "[memory]"]
    for event in sorted(events, key=lambda one: one.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most


def used(case: Case, mesh: Mesh) -> int:
    torch.manual_seed(0)
    model = Transformer(case.config())
    model = parallelize(model.bfloat16() if case.half else model, mesh=mesh)
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(case.vocabulary, (case.batch, case.sequence), generator=draw)

    def step() -> None:
        logits = model(tokens)
        vocabulary_parallel_cross_entropy(logits, tokens, mesh=mesh).backward()

    step()
    states = 12 if case.half else 8
    held = sum(p.numel() * (2 * p.element_size() + states) for p in model.parameters())
    return held + allocated(step)


def rank_main(rank: int, file: str, ranks: int, case: Case, shape: tuple[int, int]) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", f"file://{file}", rank=rank, world_size=ranks)
    mesh = init_mesh(*shape, sequence_parallel=case.sequence_parallel)
    most = torch.tensor(used(case, mesh))
    dist.all_reduce(most, dist.ReduceOp.MAX)
    if rank == 0:
        Path(f"{file}.result").write_text(str(most.item()))
    mesh.close()
    dist.destroy_process_group()


def measured(case: Case, shape: tuple[int, int]) -> int:
    ranks = shape[0] * shape[1]
    with tempfile.TemporaryDirectory() as folder:
        file = f"{folder}/store"
        processes.spawn(rank_main, (file, ranks, case, shape), nprocs=ranks)
        return int(Path(f"{file}.result").read_text())


def planned(case: Case, shape: tuple[int, int]) -> int:
    ranks = shape[0] * shape[1]
    answer = plan(
        {"levels": [LEVEL | {"count": ranks}]}, case.model(), batch=case.batch,
        sequence=case.sequence, element_bytes=2 if case.half else 4, runtime=True,
        sequence_parallel=case.sequence_parallel,
    )  # fmt: skip
    return next(
        round(one.memory.total) for one in (answer, *answer.runners_up) if one.mesh == shape
    )


CASES = (
    Case("llama"),
    Case("grouped", kv_heads=2, meshes=((2, 1), (2, 2))),
    Case("vocabulary", layers=1, vocabulary=16384, meshes=((1, 1), (2, 1))),
    Case("bf16", half=True, meshes=((1, 1), (2, 2))),
    Case("gpt", gated=False, meshes=((1, 1), (1, 2))),
    Case("gpt-vocabulary-bf16", gated=False, half=True, vocabulary=8192, meshes=((2, 1),)),
    Case("sequence-parallel", sequence_parallel=True, meshes=((2, 1),)),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=[case.name for case in CASES])
    only = parser.parse_args().only
    wrong = 0
    for case in CASES:
        for shape in case.meshes if only in (None, case.name) else ():
            most, said = measured(case, shape), planned(case, shape)
            fits = most <= said <= 1.1 * most
            wrong += not fits
            print(f"{case.name} {shape}: used {most / 1e6:.1f} MB, planned {said / 1e6:.1f} MB, "
                  f"{said / most:.3f}{'' if fits else '  WRONG'}", flush=True)  # fmt: skip
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
