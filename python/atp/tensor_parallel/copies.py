"""Parts of a parameter that several rows hold: their gradients are summed, so they stay copies."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.overlap import once_a_batch
from atp.tensor_parallel.sharding import Cut, Part, cut_of, piece

__all__ = ["sum_copies"]


def sum_copies(module: Any, name: str) -> torch.Tensor | None:
    """A parameter of a module that has a mesh; backward, each part that several rows hold gets
    the sum of their gradients.

    Only key-value heads have copies, if there are fewer of them than rows (the paper has no
    grouped queries). The sum is an all-reduce of the whole part on dimension 1, once for all
    chunks of a batch.
    """
    parameter, mesh = piece(module, name), module.mesh
    if parameter is None:
        return None
    cut = cut_of(module, name)
    if all(part.pieces == mesh.first.size for part in cut.parts):
        return parameter
    return once_a_batch(parameter, lambda p: _SumCopies.apply(p, cut, mesh))


class _SumCopies(Function):
    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, cut: Cut, mesh: Mesh) -> torch.Tensor:
        ctx.cut, ctx.mesh = cut, mesh
        return parameter.view_as(parameter)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        gradient = gradient.clone()
        axis, first = ctx.cut.axis1, ctx.mesh.first
        for begin, width, part in _copied(ctx.cut, first.index, first.size):
            own = gradient.narrow(axis, begin, width)
            whole = own.new_zeros(part.pieces, *own.shape)
            piece = part.piece(first.index, first.size)
            whole[piece] = own
            own.copy_(first.all_reduce(whole).land()[piece])
        return gradient, None, None


def _copied(cut: Cut, row: int, rows: int) -> Iterator[tuple[int, int, Part]]:
    begin = 0
    for part in cut.parts:
        width = part.of(row, rows)[1]
        if part.pieces != rows:
            yield begin, width, part
        begin += width
