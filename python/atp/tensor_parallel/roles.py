"""The roles that a model's modules have in tensor parallelism: the plan of `parallelize`."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.attention import ATPAttention, Core, HeadCounts, causal_attention
from atp.tensor_parallel.dropout import ATPDropout
from atp.tensor_parallel.embedding import ATPEmbedding, ATPPositions, vocabulary_part
from atp.tensor_parallel.feed_forward import ATPFeedForward
from atp.tensor_parallel.head import ATPHead
from atp.tensor_parallel.head_layout import HeadLayout, plain_layout
from atp.tensor_parallel.kept_attention import keep_attention
from atp.tensor_parallel.kept_forward import KeptForward
from atp.tensor_parallel.likeness import features_of, formula_of_norm, is_conv1d
from atp.tensor_parallel.linear import ATPLinear, require_divides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.norm import norm_of
from atp.tensor_parallel.sharding import Cut

__all__ = [
    "AttentionRole",
    "Column",
    "ColumnsRole",
    "EmbeddingRole",
    "FeedForwardRole",
    "Head",
    "Inner",
    "KeptAttentionRole",
    "Norm",
    "Plan",
    "PositionsRole",
    "Role",
    "Row",
]


class Role:
    """Makes the parallel module that replaces one of the model's."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        raise NotImplementedError


Plan = Mapping[str, Role]
"""Names of modules, with * for any part of a name, and their roles."""


def _expect(module: nn.Module, kind: Any, site: str) -> None:
    if not isinstance(module, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(k.__name__ for k in kinds)
        raise ValueError(f"{site}: found {type(module).__name__}, expected {names}")


def _expect_linear(module: nn.Module, site: str) -> None:
    if not is_conv1d(module):
        _expect(module, nn.Linear, site)


@dataclasses.dataclass(frozen=True)
class Column(Role):
    """A column-first nn.Linear, [..., in/d2] -> [..., out/d1], such as the head. If d1 does not
    divide the outputs, the last row has fewer."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Linear, site)
        parts = (vocabulary_part(module.out_features, mesh, site),)
        return ATPLinear.from_linear(module, "column", mesh, parts, site)


@dataclasses.dataclass(frozen=True)
class Head(Role):
    """The nn.Linear that computes the logits; every rank gets all of them: [..., h/d2] -> [..., V].

    A model's own loss and `generate` work on them unchanged. `Column` leaves each row its part.
    """

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Linear, site)
        return ATPHead.of(module, mesh, site)


@dataclasses.dataclass(frozen=True)
class Row(Role):
    """A row-first nn.Linear, [..., in/d1] -> [..., out/d2]."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect_linear(module, site)
        return ATPLinear.from_linear(module, "row", mesh, site=site)


@dataclasses.dataclass(frozen=True)
class Inner(Role):
    """A column-first nn.Linear whose outputs go, value by value, to a `Row`."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect_linear(module, site)
        return ATPLinear.from_linear(module, "column", mesh, site=site)


@dataclasses.dataclass(frozen=True)
class Norm(Role):
    """An nn.LayerNorm or nn.RMSNorm over the hidden size, or one of transformers.

    width: the hidden size, for a norm without a weight that tells it.
    """

    width: int | None = None

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        if formula_of_norm(module, self.width) is None:
            _expect(module, (nn.LayerNorm, nn.RMSNorm), site)
        return norm_of(module, mesh, site, self.width)


@dataclasses.dataclass(frozen=True)
class EmbeddingRole(Role):
    """The nn.Embedding of the tokens, whose result is multiplied by `scale`."""

    scale: float = 1.0

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Embedding, site)
        return ATPEmbedding(module, mesh, site, self.scale)


@dataclasses.dataclass(frozen=True)
class PositionsRole(Role):
    """The nn.Embedding of the positions."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Embedding, site)
        return ATPPositions(module, mesh, site)


@dataclasses.dataclass(frozen=True)
class ColumnsRole(Role):
    """An nn.Embedding of positions with its own forward pass, which runs on a rank's columns."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Embedding, site)
        require_divides(mesh.second, site, "features", module.embedding_dim)
        if mesh.splits_tokens:
            raise ValueError(
                f"{site}: it needs all tokens of a sequence; use init_mesh() without "
                "sequence_parallel"
            )
        return KeptForward(module, {"weight": Cut(None, 1)}, mesh)


def _children(
    module: nn.Module,
    names: tuple[str, ...],
    site: str,
    *dropouts: str | None,
    own: tuple[str, ...] = (),
) -> dict[str, nn.Linear]:
    children = {}
    _refuse_forgotten_dropouts(module, site, dropouts)
    for name in names:
        child = getattr(module, name, None)
        _expect_linear(child, f"{site}.{name}")
        children[name] = child
    others = {name for name, _ in module.named_parameters()}
    others -= {f"{name}.{kind}" for name in names for kind in ("weight", "bias")} | {*own}
    if others:
        raise ValueError(f"{site}: its role does not mention its {', '.join(sorted(others))}")
    return children


_DROPOUTS = nn.modules.dropout._DropoutNd


def _refuse_forgotten_dropouts(
    module: nn.Module, site: str, dropouts: tuple[str | None, ...]
) -> None:
    """Raises ValueError for dropouts that the role does not mention: they would silently vanish."""
    for name, child in module.named_modules():
        if isinstance(child, _DROPOUTS) and child.p > 0 and name not in dropouts:
            raise ValueError(
                f"{site}: its role does not mention its {type(child).__name__} {name}; if it acts "
                f"on the block's output, add dropout={name!r}; others belong in the core or "
                "activation"
            )


def _dropout(module: nn.Module, name: str | None, mesh: Mesh, site: str) -> ATPDropout | None:
    if name is None:
        return None
    child = getattr(module, name, None)
    _expect(child, nn.Dropout, f"{site}.{name}")
    return ATPDropout(child.p, mesh)


def _counts(
    layers: Mapping[str, nn.Module], output: nn.Module, heads: int, kv_heads: int, site: str
) -> HeadCounts:
    """Raises ValueError if the layers' widths do not match these heads."""
    _, inputs = features_of(output)
    if inputs % heads:
        raise ValueError(f"{site}: {heads} heads do not divide the output layer's {inputs} inputs")
    counts = HeadCounts(heads, kv_heads, inputs // heads)
    found = sum(features_of(layer)[0] for layer in layers.values())
    expected = (heads + 2 * kv_heads) * counts.width
    if found != expected:
        raise ValueError(
            f"{site}: {', '.join(layers)} have {found} outputs, but {heads} heads of queries and "
            f"2 * {kv_heads} of keys and values, {counts.width} wide, need {expected}"
        )
    return counts


@dataclasses.dataclass(frozen=True)
class AttentionRole(Role):
    """An attention block: the names of its layers, its heads, and its core.

    inputs: one layer that computes queries, keys and values in this order, or three layers.
    dropout: the name of the nn.Dropout on the block's output. In training, the core draws
        different random numbers on each rank.
    """

    inputs: tuple[str, ...]
    output: str
    heads: int
    kv_heads: int | None = None
    core: Core = dataclasses.field(default=causal_attention, repr=False)
    dropout: str | None = None

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        layers = _children(module, (*self.inputs, self.output), site, self.dropout)
        output = layers.pop(self.output)
        counts = _counts(layers, output, self.heads, self.kv_heads or self.heads, site)
        attention = ATPAttention(layers, (self.output, output), counts, mesh, self.core, site)
        attention.dropout = _dropout(module, self.dropout, mesh, site)
        return attention


@dataclasses.dataclass(frozen=True)
class KeptAttentionRole(Role):
    """An attention block that runs its own forward pass on the heads of a rank.

    For blocks of other libraries, whose core treats all heads alike and counts them by the shapes
    of queries, keys and values (or by what `keep_attention` sets).

    inputs, output, heads, kv_heads, dropout: as in AttentionRole.
    core_dropouts: names of the core's nn.Dropouts, which draw different numbers on each rank.
    layout: which values belong to which heads; default: the same number of values for each head,
        of queries, keys and values, and no parameters besides the layers'.
    """

    inputs: tuple[str, ...]
    output: str
    heads: int
    kv_heads: int | None = None
    dropout: str | None = None
    core_dropouts: tuple[str, ...] = ()
    layout: HeadLayout | None = None

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        known = (self.dropout, *self.core_dropouts)
        own = () if self.layout is None else tuple(self.layout.own)
        layers = _children(module, (*self.inputs, self.output), site, *known, own=own)
        output = layers.pop(self.output)
        layout = self.layout
        if layout is None:
            counts = _counts(layers, output, self.heads, self.kv_heads or self.heads, site)
            layout = plain_layout(counts, self.inputs)
        _dropout(module, self.dropout, mesh, site)
        return keep_attention(
            module, layers, (self.output, output), layout, self.dropout, mesh, site
        )


@dataclasses.dataclass(frozen=True)
class FeedForwardRole(Role):
    """A feed-forward block: the names of its layers, and the activation between them.

    dropout: the name of the nn.Dropout on the block's output. In training, the activation draws
        the same random numbers on all ranks of a row of the mesh, which hold the same values.
    halves: 2 if one layer computes gate and up, one after the other.
    """

    inputs: tuple[str, ...]
    output: str
    activation: Callable[..., torch.Tensor] = dataclasses.field(repr=False)
    dropout: str | None = None
    halves: int = 1

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        layers = _children(module, (*self.inputs, self.output), site, self.dropout)
        output = layers.pop(self.output)
        block = ATPFeedForward(
            layers, (self.output, output), self.activation, mesh, site, self.halves
        )
        block.dropout = _dropout(module, self.dropout, mesh, site)
        return block
