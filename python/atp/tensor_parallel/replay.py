"""One layer's collectives, forward and backward, without its matrix products.

The runtime's own blocks run, with products, core and norms that cost next to nothing: the rest is
what the planner estimates.
"""

import contextlib
import time
from collections.abc import Iterator

import torch
import torch.distributed as dist
from torch import nn

from atp.tensor_parallel import conjugates
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.parallelize import parallelize
from atp.tensor_parallel.roles import AttentionRole, FeedForwardRole
from atp.tensor_parallel.transformer import Block, TransformerConfig

__all__ = ["Replay"]


class Replay:
    """A layer of `config` on `mesh`; `seconds()` measures its communication."""

    def __init__(self, config: TransformerConfig, mesh: Mesh, batch: int, sequence: int):
        self._mesh = mesh
        self._x = torch.full((batch, sequence, config.hidden // mesh.second.size), 0.5)
        with torch.device("meta"):
            block = Block(config).requires_grad_(False)
        block.norm1 = block.norm2 = nn.Identity()
        gated = config.gated
        plan = {
            "attention": AttentionRole(
                ("qkv",), "out", config.heads, config.kv, lambda q, k, v: q.clone()
            ),
            "feed_forward": FeedForwardRole(
                ("gate", "up") if gated else ("up",), "down", lambda *parts: parts[-1].clone()
            ),
        }
        self._block = parallelize(block, plan, mesh)
        for module in self._block.modules():
            _give_copies_gradients(module, mesh.first.size)

    def seconds(self) -> float:
        """The time of the slowest rank; all ranks of the job get the same value."""
        x = self._x.clone().requires_grad_()
        self._block.zero_grad()
        dist.barrier()
        begin = time.perf_counter()
        with _without_products():
            output = self._block(x)
            output.backward(self._x)
        return slowest(time.perf_counter() - begin)


def _give_copies_gradients(module: nn.Module, rows: int) -> None:
    """Parameters with parts that several rows hold: the sums of their gradients are also sent."""
    for name, cut in module.__dict__.get("atp_cuts", {}).items():
        parameter = getattr(module, name)
        if parameter is not None and any(part.pieces != rows for part in cut.parts):
            setattr(module, name, nn.Parameter(torch.zeros(parameter.shape)))


def slowest(seconds: float) -> float:
    """The largest of all ranks' numbers."""
    number = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(number, op=dist.ReduceOp.MAX)
    return number.item()


@contextlib.contextmanager
def _without_products() -> Iterator[None]:
    real = conjugates._multiply, conjugates._gradient_of_weight
    conjugates._multiply, conjugates._gradient_of_weight = _allocate, _allocate_gradient
    try:
        yield
    finally:
        conjugates._multiply, conjugates._gradient_of_weight = real


def _allocate(x: torch.Tensor, weight: torch.Tensor, _bias: torch.Tensor | None = None):
    return x.new_full((*x.shape[:-1], weight.shape[0]), 0.5)


def _allocate_gradient(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return gradient.new_full((gradient.shape[-1], x.shape[-1]), 0.5)
