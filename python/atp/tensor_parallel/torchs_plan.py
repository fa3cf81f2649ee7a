"""A model's plan for torch's own parallelize_module, which takes meshes of one dimension only."""

from typing import Any

from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel

from atp.tensor_parallel.parallelize import roles_of
from atp.tensor_parallel.plans import plan_of
from atp.tensor_parallel.roles import (
    AttentionRole,
    Column,
    EmbeddingRole,
    FeedForwardRole,
    Head,
    Inner,
    KeptAttentionRole,
    Row,
)

__all__ = ["parallelize_module_plan"]


def parallelize_module_plan(model: nn.Module, ranks: int) -> dict[str, ParallelStyle]:
    """What parallelize() does on a mesh (ranks, 1), as a plan for torch's parallelize_module:

        parallelize_module(model, mesh.device_mesh["tp1"], parallelize_module_plan(model, 4))

    Norms and positions stay whole on every rank, and so do a table of tokens and a head that share
    a weight, which torch would separate. The head returns all logits.

    Raises:
        ValueError: a module is unknown, or torch cannot split it this way; the message names it.
    """
    styles: dict[str, ParallelStyle] = {}
    for name, role in roles_of(model, plan_of(model)).items():
        if isinstance(role, (AttentionRole, KeptAttentionRole)):
            _check_heads(name, role, ranks)
        if getattr(role, "halves", 1) > 1:
            raise ValueError(
                f"{name}.{role.inputs[0]}: torch's parallelize_module cannot split one layer for "
                "gate and up, because each of the two is split separately"
            )
        if isinstance(role, (AttentionRole, KeptAttentionRole, FeedForwardRole)):
            for layer in role.inputs:
                styles[f"{name}.{layer}"] = ColwiseParallel()
            styles[f"{name}.{role.output}"] = RowwiseParallel()
        elif isinstance(role, Inner):
            styles[name] = ColwiseParallel()
        elif isinstance(role, Row):
            styles[name] = RowwiseParallel()
        elif isinstance(role, (Column, Head)):
            styles[name] = ColwiseParallel(output_layouts=Replicate())
        elif isinstance(role, EmbeddingRole):
            styles[name] = RowwiseParallel(input_layouts=Replicate())
    for name in styles:
        if not isinstance(model.get_submodule(name), (nn.Linear, nn.Embedding)):
            kind = type(model.get_submodule(name)).__name__
            raise ValueError(
                f"{name}: torch's parallelize_module splits nn.Linear and nn.Embedding, not {kind}"
            )
    return {name: style for name, style in styles.items() if not _is_shared(model, name)}


def _check_heads(name: str, role: Any, ranks: int) -> None:
    if len(role.inputs) == 1:
        raise ValueError(
            f"{name}.{role.inputs[0]}: torch's parallelize_module cannot split one layer for "
            "queries, keys and values, because each of the three is split separately"
        )
    if getattr(role, "layout", None) is not None:
        raise ValueError(
            f"{name}: it has more than queries, keys and values, such as norms of these, whose "
            "gradients torch's parallelize_module would not sum"
        )
    fewest = role.kv_heads or role.heads
    if fewest % ranks:
        raise ValueError(f"{name}: {ranks} ranks cannot share {fewest} key-value heads equally")


def _is_shared(model: nn.Module, name: str) -> bool:
    own = model.get_submodule(name).weight
    shared = [each for each, tensor in model.named_parameters(remove_duplicate=False)
              if tensor is own]  # fmt: skip
    return len(shared) > 1
