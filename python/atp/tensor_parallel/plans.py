"""The plans that parallelize() uses by default."""

from typing import Any

from torch import nn

from atp.tensor_parallel.roles import (
    AttentionRole,
    Column,
    EmbeddingRole,
    FeedForwardRole,
    Norm,
    Plan,
    PositionsRole,
)
from atp.tensor_parallel.transformer import Transformer, gelu, swiglu
from atp.tensor_parallel.unchanged import is_like_transformers, plan_of_unchanged

__all__ = ["plan_of"]


def plan_of(model: nn.Module) -> Plan:
    """The plan of an `atp.tensor_parallel.Transformer`, of one of its blocks, or of a model of
    transformers.

    Raises:
        ValueError: it has a module of an unknown kind; the message names it.
    """
    if isinstance(model, Transformer):
        first = next(iter(model.blocks))
        outside = {"tokens": EmbeddingRole(), "norm": Norm(), "head": Column()}
        if model.positions is not None:
            outside["positions"] = PositionsRole()
        return outside | {f"blocks.*.{name}": role for name, role in plan_of(first).items()}
    if is_like_transformers(model):
        return plan_of_unchanged(model)
    try:
        return _plan_of_block(model)
    except AttributeError:
        raise ValueError(
            f"there is no plan for {type(model).__name__}: give its modules roles with "
            "plan={name: role}"
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
