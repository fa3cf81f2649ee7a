"""Parts of a parameter that several rows hold: their gradients are summed, so they stay copies."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.sharding import Cut, Part, cut_of

__all__ = ["sum_copies"]


def sum_copies(parameter: torch.Tensor | None, mesh: Mesh) -> torch.Tensor | None:
    """The parameter; backward, each part of which rows hold copies gets the sum of their gradients.

    Only key-value heads of which there are fewer than rows have any (the paper has no grouped
    queries). The sum costs dimension 1 an all-reduce of the whole part.
    """
    rows = mesh.first.size
    if parameter is None or all(part.pieces == rows for part in cut_of(parameter).parts):
        return parameter
    return _SumCopies.apply(parameter, cut_of(parameter), mesh)


class _SumCopies(Function):
    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, cut: Cut, mesh: Mesh) -> torch.Tensor:
        ctx.cut, ctx.mesh = cut, mesh
        return parameter.view_as(parameter)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        gradient = gradient.clone()
        for begin, part in _copied(ctx.cut, ctx.mesh.first.size):
            own = gradient.narrow(0, begin, part.width())
            whole = own.new_zeros(part.pieces, part.width(), *own.shape[1:])
            piece = part.piece(ctx.mesh.first.index, ctx.mesh.first.size)
            whole[piece] = own
            own.copy_(ctx.mesh.first.all_reduce(whole).land()[piece])
        return gradient, None, None


def _copied(cut: Cut, rows: int) -> Iterator[tuple[int, Part]]:
    begin = 0
    for part in cut.parts:
        if part.pieces != rows:
            yield begin, part
        begin += part.width()
