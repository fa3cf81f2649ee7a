"""What each module of a model is to tensor parallelism: the plan that `parallelize` follows."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.attention import ATPAttention, Core, HeadCounts, causal_attention
from atp.tensor_parallel.embedding import ATPEmbedding, ATPPositions, vocabulary_part
from atp.tensor_parallel.feed_forward import ATPFeedForward
from atp.tensor_parallel.linear import ATPLinear
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.norm import ATPLayerNorm, ATPRMSNorm
from atp.tensor_parallel.randomness import ATPDropout
from atp.tensor_parallel.transformer import Transformer, gelu, swiglu

__all__ = [
    "AttentionRole",
    "Column",
    "EmbeddingRole",
    "FeedForwardRole",
    "Norm",
    "Plan",
    "PositionsRole",
    "Role",
    "Row",
    "plan_of",
]


class Role:
    """Makes the parallel module that takes the place of one of the model's."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        raise NotImplementedError


Plan = Mapping[str, Role]
"""Names of modules, with * for any part of a name, and their roles."""


def _expect(module: nn.Module, kind: Any, site: str) -> None:
    if not isinstance(module, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        names = " or ".join(k.__name__ for k in kinds)
        raise ValueError(f"{site}: found a {type(module).__name__}, expected a {names}")


@dataclasses.dataclass(frozen=True)
class Column(Role):
    """A column-first nn.Linear, [..., in/d2] -> [..., out/d1]: the head, say. Where d1 does not
    divide the outputs the last row has fewer."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Linear, site)
        parts = (vocabulary_part(module.out_features, mesh, site),)
        return ATPLinear.from_linear(module, "column", mesh, parts, site)


@dataclasses.dataclass(frozen=True)
class Row(Role):
    """A row-first nn.Linear, [..., in/d1] -> [..., out/d2]."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Linear, site)
        return ATPLinear.from_linear(module, "row", mesh, site=site)


@dataclasses.dataclass(frozen=True)
class Norm(Role):
    """An nn.LayerNorm or nn.RMSNorm of the hidden size."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, (nn.LayerNorm, nn.RMSNorm), site)
        kind = ATPLayerNorm if isinstance(module, nn.LayerNorm) else ATPRMSNorm
        return kind.from_norm(module, mesh, site)


@dataclasses.dataclass(frozen=True)
class EmbeddingRole(Role):
    """The nn.Embedding of the tokens."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Embedding, site)
        return ATPEmbedding(module, mesh, site)


@dataclasses.dataclass(frozen=True)
class PositionsRole(Role):
    """The nn.Embedding of the positions."""

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        _expect(module, nn.Embedding, site)
        return ATPPositions(module, mesh, site)


def _children(
    module: nn.Module, names: tuple[str, ...], site: str, dropout: str | None
) -> dict[str, nn.Linear]:
    children = {}
    _refuse_forgotten_dropouts(module, site, dropout)
    for name in names:
        child = getattr(module, name, None)
        _expect(child, nn.Linear, f"{site}.{name}")
        children[name] = child
    others = {name for name, _ in module.named_parameters()}
    others -= {f"{name}.{kind}" for name in names for kind in ("weight", "bias")}
    if others:
        raise ValueError(f"{site}: its role says nothing of its {', '.join(sorted(others))}")
    return children


_DROPOUTS = nn.modules.dropout._DropoutNd


def _refuse_forgotten_dropouts(module: nn.Module, site: str, dropout: str | None) -> None:
    """What takes the module's place would go without them, and nobody would see that."""
    for name, child in module.named_modules():
        if isinstance(child, _DROPOUTS) and child.p > 0 and name != dropout:
            raise ValueError(
                f"{site}: its role says nothing of its {type(child).__name__} {name}; that of what "
                f"leaves the block is dropout={name!r}, others belong into the core or activation"
            )


def _dropout(module: nn.Module, name: str | None, mesh: Mesh, site: str) -> ATPDropout | None:
    if name is None:
        return None
    child = getattr(module, name, None)
    _expect(child, nn.Dropout, f"{site}.{name}")
    return ATPDropout(child.p, mesh.randomness)


@dataclasses.dataclass(frozen=True)
class AttentionRole(Role):
    """An attention block: the names of its layers, its heads, and its core.

    inputs: one layer that makes queries, keys and values in this order, or three.
    dropout: the name of the nn.Dropout of what leaves the block. What the core draws while it
        trains differs from rank to rank.
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
        if output.in_features % self.heads:
            raise ValueError(f"{site}: {self.heads} heads do not divide {output.in_features}")
        width = output.in_features // self.heads
        counts = HeadCounts(self.heads, self.kv_heads or self.heads, width)
        found = sum(layer.out_features for layer in layers.values())
        expected = (counts.heads + 2 * counts.kv) * width
        if found != expected:
            raise ValueError(
                f"{site}: {', '.join(self.inputs)} make {found} values, but {counts.heads} heads "
                f"of queries and 2 * {counts.kv} of keys and values, {width} each, are {expected}"
            )
        attention = ATPAttention(layers, (self.output, output), counts, mesh, self.core, site)
        attention.dropout = _dropout(module, self.dropout, mesh, site)
        return attention


@dataclasses.dataclass(frozen=True)
class FeedForwardRole(Role):
    """A feed-forward block: the names of its layers, and what is between them.

    dropout: the name of the nn.Dropout of what leaves the block. What the activation draws while it
        trains is the same in a row of the mesh, whose ranks all hold what it works on.
    """

    inputs: tuple[str, ...]
    output: str
    activation: Callable[..., torch.Tensor] = dataclasses.field(repr=False)
    dropout: str | None = None

    def build(self, module: nn.Module, mesh: Mesh, site: str) -> nn.Module:
        layers = _children(module, (*self.inputs, self.output), site, self.dropout)
        output = layers.pop(self.output)
        block = ATPFeedForward(layers, (self.output, output), self.activation, mesh, site)
        block.dropout = _dropout(module, self.dropout, mesh, site)
        return block


def plan_of(model: nn.Module) -> Plan:
    """The plan of an `atp.tensor_parallel.Transformer`, or of one of its blocks."""
    if isinstance(model, Transformer):
        first = next(iter(model.blocks))
        outside = {"tokens": EmbeddingRole(), "norm": Norm(), "head": Column()}
        if model.positions is not None:
            outside["positions"] = PositionsRole()
        return outside | {f"blocks.*.{name}": role for name, role in plan_of(first).items()}
    try:
        return _plan_of_block(model)
    except AttributeError:
        raise ValueError(
            f"there is no plan for a {type(model).__name__}: say with plan={{name: role}} what its "
            "modules are"
        ) from None


def _plan_of_block(block: Any) -> Plan:
    attention, feed_forward = block.attention, block.feed_forward
    heads, kv_heads, _ = (width // attention.head_width for width in attention.widths)
    qkv = ("qkv",) if hasattr(attention, "qkv") else ("q", "k", "v")
    gated = hasattr(feed_forward, "gate")
    return {
        "norm1": Norm(),
        "norm2": Norm(),
        "attention": AttentionRole(qkv, "out", heads, kv_heads, attention.core),
        "feed_forward": FeedForwardRole(
            ("gate", "up") if gated else ("up",), "down", swiglu if gated else gelu
        ),
    }
