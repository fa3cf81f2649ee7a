"""torch's norm of gradients, and with it torch's clip_grad_norm_, right for a rank's pieces.

torch would count the pieces of one rank, so each rank would scale its gradients by another factor,
and copies would drift apart. Programs call torch's functions by many names, all of which ask
`_get_total_norm`. It is replaced when the first mesh is made, and still serves other tensors.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.utils import clip_grad

from atp.tensor_parallel.sharding import Cut, copies_in, holders, local

__all__ = ["pieces_by", "replace_torchs_norm"]

Pieces = Mapping[int, tuple[Any, Cut]]
"""For the id of a tensor, the mesh and the cut of the parameter that it belongs to."""


@functools.cache
def replace_torchs_norm() -> None:
    """From now on torch's functions count the pieces of all ranks, and are then collectives."""
    torchs = clip_grad._get_total_norm

    @functools.wraps(torchs)
    def total_norm(tensors: Any, norm_type: float = 2.0, *more: Any, **named: Any) -> torch.Tensor:
        tensors = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
        pieces = pieces_by("grad")
        meshes = {pieces[id(tensor)][0] for tensor in tensors if id(tensor) in pieces}
        if not meshes:
            return torchs(tensors, norm_type, *more, **named)
        if len(meshes) > 1:
            raise ValueError(
                "clip_grad_norm_: found gradients of models on different meshes, expected one: "
                f"{', '.join(map(repr, meshes))}; clip each model by itself"
            )
        norm = _norm(tensors, float(norm_type), pieces, meshes.pop())
        return torchs([norm], 2.0, *more, **named)  # raises an error if it is not finite

    clip_grad._get_total_norm = total_norm
    if getattr(nn.utils, "get_total_norm", None) is torchs:
        nn.utils.get_total_norm = total_norm


def pieces_by(attribute: str) -> Pieces:
    """The pieces of all parameters that are no DTensors, or of an attribute of them."""
    found: dict[int, tuple[Any, Cut]] = {}
    for module in holders():
        for leaf, cut in vars(module)["atp_cuts"].items():
            parameter = getattr(module, leaf)
            tensor = parameter if not attribute else getattr(parameter, attribute, None)
            if tensor is not None and tensor is local(tensor):
                found[id(tensor)] = module.mesh, cut
    return found


def _norm(tensors: Sequence[torch.Tensor], power: float, pieces: Pieces, mesh: Any) -> torch.Tensor:
    """A value that several ranks hold counts once; a tensor without pieces is one that all hold."""
    largest, every = power == torch.inf, mesh.first.size * mesh.second.size
    first = tensors[0]
    total = torch.zeros((), dtype=torch.float64, device=first.device)
    for tensor in tensors:
        _, cut = pieces.get(id(tensor), (mesh, None))
        for part, copies in copies_in(cut, tensor, mesh) if cut else [(tensor, every)]:
            norm = torch.linalg.vector_norm(part, power).double().to(total.device)
            total = torch.maximum(total, norm) if largest else total + norm**power / copies
    op = dist.ReduceOp.MAX if largest else dist.ReduceOp.SUM
    for dimension in (mesh.first, mesh.second):
        total = dimension.all_reduce(total, op).land()
    return (total if largest else total ** (1 / power)).to(first.dtype)
