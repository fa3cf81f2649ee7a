"""The norm of all gradients of a model that is split over a mesh."""

import torch
from torch import nn

from atp.tensor_parallel.parallelize import mesh_of
from atp.tensor_parallel.sharding import copies_in, cuts_of, is_cut_further, local

__all__ = ["clip_grad_norm_", "grad_norm"]


def grad_norm(model: nn.Module) -> torch.Tensor:
    """The 2-norm of the whole model's gradients, the same on every rank; a collective.

    A value that several ranks hold counts once.
    """
    mesh = mesh_of(model)
    squares = torch.zeros((), dtype=torch.float64, device=_device_of(model))
    cuts = cuts_of(model)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            if is_cut_further(parameter):
                raise ValueError(
                    f"{name}: fully_shard() has sharded it over the replicas; use "
                    "torch.nn.utils.clip_grad_norm_, which is then right for all parameters"
                )
            for piece, copies in copies_in(cuts[name], local(parameter.grad), mesh):
                squares += piece.double().square().sum() / copies
    for dimension in (mesh.first, mesh.second):
        squares = dimension.all_reduce(squares).land()
    return squares.sqrt()


def clip_grad_norm_(model: nn.Module, max_norm: float) -> torch.Tensor:
    """Scales the gradients to a norm of at most `max_norm`; returns the norm that they had."""
    norm = grad_norm(model)
    factor = max_norm / (norm + 1e-6)
    if factor < 1:
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter.grad.mul_(factor)
    return norm


def _device_of(model: nn.Module) -> torch.device | None:
    return next((parameter.device for parameter in model.parameters()), None)
