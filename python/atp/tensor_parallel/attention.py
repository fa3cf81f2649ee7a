"""Attention whose core is split over both dimensions (paper §3.2.1, Fig. 6a)."""

import dataclasses
from collections.abc import Callable, Mapping

import torch
from torch import nn

from atp.planner import core_spread
from atp.tensor_parallel.conjugates import Hop, arrive, depart
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.linear import ATPLinear, column_steps, require_divides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.moves import (
    Gather,
    Heads,
    Keep,
    ReduceSlice,
    Sequences,
    Slicing,
)
from atp.tensor_parallel.overlap import Steps, run
from atp.tensor_parallel.sharding import Part

__all__ = [
    "ATPAttention",
    "Core",
    "HeadCounts",
    "causal_attention",
    "gather_hop",
    "heads_of_columns",
    "scatter_hop",
]

Core = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Queries [b, s, heads, width], keys and values [b, s, kv heads, width] -> [b, s, heads, width].
It gets some of the heads or some of the sequences, so it must treat them all alike."""


def causal_attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """softmax(q k^T / sqrt(width)) v, over each token and those before it (equation 1)."""
    groups = q.shape[2] // k.shape[2]
    if groups > 1:
        k, v = k.repeat_interleave(groups, 2), v.repeat_interleave(groups, 2)
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    result = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return result.transpose(1, 2)


@dataclasses.dataclass(frozen=True)
class HeadCounts:
    """`heads` query heads and `kv` key and value heads, each of `width` values."""

    heads: int
    kv: int
    width: int

    def parts(self, rows: int) -> tuple[Part, Part, Part]:
        """The blocks of a product for queries, keys and values, on a mesh with `rows` rows."""
        kv = Part(self.kv * self.width, min(self.kv, rows))
        return Part(self.heads * self.width, rows), kv, kv

    def check(self, mesh: Mesh, site: str) -> None:
        """Raises ValueError if the rows of the mesh cannot have equal shares of the heads."""
        rows = mesh.first.size
        require_divides(mesh.first, site, "heads", self.heads)
        if self.kv % rows and rows % self.kv:
            raise ValueError(
                f"{site}: d1 = {rows} does not divide its {self.kv} key-value heads and is not a "
                "multiple of them; choose another mesh"
            )

    def on_row(self, rows: int) -> "HeadCounts":
        return HeadCounts(self.heads // rows, max(1, self.kv // rows), self.width)


def heads_of_columns(counts: HeadCounts, columns: int) -> Heads | None:
    """How the ranks of a row share its heads, if they can; ranks may share key-value heads.

    counts: the heads of a row.
    """
    widths = tuple(n * counts.width for n in (counts.heads, counts.kv, counts.kv))
    if counts.heads % columns == 0 and counts.kv % columns == 0:
        return Heads(columns, widths, (1, 1, 1))
    if counts.heads % columns == 0 and columns % counts.kv == 0:
        copies = columns // counts.kv
        return Heads(columns, widths, (1, copies, copies))
    return None


def scatter_hop(second: Dimension, slicing: Slicing) -> Hop:
    """f1: partial queries, keys and values -> this rank's slice of their sum."""
    if second.size == 1:
        return Hop(Keep(), Keep())
    return Hop(ReduceSlice(second, slicing), Gather(second, slicing), (slicing, second.index))


def gather_hop(second: Dimension, slicing: Slicing) -> Hop:
    """The core's result for a slice -> its result for all slices."""
    if second.size == 1:
        return Hop(Keep(), Keep())
    if isinstance(slicing, Heads):
        slicing = Heads(slicing.count, slicing.widths[:1], (1,))
    return Hop(Gather(second, slicing), ReduceSlice(second, slicing))


class ATPAttention(nn.Module):
    """[b, s, h/d2] -> [b, s, h/d2]: QKV column-first, f1, scatter, core, gather, W_O row-first, f2.

    The ranks of a row share the core's work on the heads of the row: by heads if d2 divides them,
    else by sequences if d2 divides the batch, else by heads with key-value heads shared.

    Args:
        inputs: the layers that compute queries, keys and values, by the names they get here: one
            layer for all three, in this order, or three layers.
        output: the name and layer of W_O.
        core: see Core.

    Raises:
        ValueError: d1 does not divide the heads (key-value heads may be fewer than d1 and divide
            it: rows then hold copies); in forward: d2 divides neither heads nor batch.
    """

    def __init__(
        self,
        inputs: Mapping[str, nn.Linear],
        output: tuple[str, nn.Linear],
        counts: HeadCounts,
        mesh: Mesh,
        core: Core = causal_attention,
        site: str = "attention",
    ):
        super().__init__()
        counts.check(mesh, site)
        self.mesh, self.core, self.site = mesh, core, site
        self.dropout: nn.Module | None = None
        self._slicings: dict[int, Slicing] = {}
        self.counts = counts.on_row(mesh.first.size)
        self._inputs, self._output = tuple(inputs), output[0]
        parts = counts.parts(mesh.first.size)
        each = [parts] if len(inputs) == 1 else [(part,) for part in parts]
        for (name, linear), own in zip(inputs.items(), each, strict=True):
            layer = ATPLinear.from_linear(linear, "column", mesh, own, f"{site}.{name}")
            self.add_module(name, layer)
        layer = ATPLinear.from_linear(output[1], "row", mesh, site=f"{site}.{output[0]}")
        self.add_module(output[0], layer)

    def steps(self, x: torch.Tensor) -> Steps:
        slicing = self._slicing(x.shape[0])
        layers = [self.get_submodule(name) for name in self._inputs]
        qkv = yield from column_steps(layers, x, scatter_hop(self.mesh.second, slicing))
        mine = self._core(qkv, slicing)
        gather = gather_hop(self.mesh.second, slicing)
        token = depart(mine, gather)
        yield
        whole = arrive(token, gather)
        output = self.get_submodule(self._output)
        result = yield from output.steps(whole, gather)
        return result if self.dropout is None else self.dropout(result)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(self.steps(x))

    def _slicing(self, batch: int) -> Slicing:
        """How a batch of this size is split; asks the planner once for each size."""
        if batch not in self._slicings:
            self._slicings[batch] = self._planned_slicing(batch)
        return self._slicings[batch]

    def _planned_slicing(self, batch: int) -> Slicing:
        count, heads, kv = self.mesh.second.size, self.counts.heads, self.counts.kv
        spread = core_spread(heads, kv, (1, count), batch)
        if spread == "sequences":
            return Sequences(count)
        if spread is not None:
            return heads_of_columns(self.counts, count)
        raise ValueError(
            f"{self.site}: d2 = {count} divides neither the {heads} heads of a row (with {kv} for "
            f"keys and values) nor the {batch} sequences of the batch"
        )

    def _core(self, qkv: torch.Tensor, slicing: Slicing) -> torch.Tensor:
        parts = qkv.split(self._shares(slicing), -1)
        q, k, v = (part.unflatten(-1, (-1, self.counts.width)) for part in parts)
        if not self.training:
            return self.core(q, k, v).flatten(-2)
        with self.mesh.randomness.of_rank(q.device):
            return self.core(q, k, v).flatten(-2)

    def _shares(self, slicing: Slicing) -> list[int]:
        if isinstance(slicing, Heads):
            return slicing.shares()
        return [n * self.counts.width for n in (self.counts.heads, self.counts.kv, self.counts.kv)]
