"""Parameters that several rows hold: their gradients are summed, so they stay copies."""

from collections.abc import Iterator
from typing import Any

import torch
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.overlap import once_a_batch
from atp.tensor_parallel.sharding import Cut, Part, cut_of, piece

__all__ = ["sum_copies", "sum_over_ranks", "used_by_tokens"]


def used_by_tokens(mesh: Mesh, *parameters: torch.Tensor | None) -> list[torch.Tensor | None]:
    """Parameters of one shape that all rows hold whole, as a module uses them. With sequence
    parallelism a row applies them to its tokens only; backward, their gradients are summed on
    dimension 1, in one all-reduce and once for all chunks of a batch."""
    here = [parameter for parameter in parameters if parameter is not None]
    if not here or not mesh.splits_tokens:
        return list(parameters)
    summed = once_a_batch(here[0], lambda _: _SumRows.apply(mesh, *here))
    found = iter(summed if len(here) > 1 else [summed])
    return [None if parameter is None else next(found) for parameter in parameters]


class _SumRows(Function):
    @staticmethod
    def forward(ctx: Any, mesh: Mesh, *parameters: torch.Tensor):
        ctx.mesh = mesh
        used = tuple(parameter.view_as(parameter) for parameter in parameters)
        return used if len(used) > 1 else used[0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor):
        whole = ctx.mesh.first.all_reduce(torch.stack(gradients)).land()
        return None, *whole.unbind()


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


def sum_over_ranks(module: Any, name: str) -> torch.Tensor | None:
    """A parameter that each rank uses for its own heads only: whole, or cut over all ranks. Where
    several ranks hold the same piece, backward, it gets the sum of their gradients."""
    parameter, mesh, cut = piece(module, name), module.mesh, cut_of(module, name)
    if parameter is None:
        return None
    ranks = mesh.first.size * mesh.second.size
    pieces = cut.parts[0].pieces if cut.by_ranks else 1
    if pieces == ranks:
        return parameter
    own = (mesh.row * mesh.second.size + mesh.column) * pieces // ranks
    return once_a_batch(parameter, lambda p: _SumOverRanks.apply(p, own, pieces, mesh))


class _SumOverRanks(Function):
    @staticmethod
    def forward(ctx: Any, parameter: torch.Tensor, own: int, pieces: int, mesh: Mesh):
        ctx.own, ctx.pieces, ctx.mesh = own, pieces, mesh
        return parameter.view_as(parameter)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        whole = gradient.new_zeros(ctx.pieces, *gradient.shape)
        whole[ctx.own] = gradient
        for dimension in (ctx.mesh.second, ctx.mesh.first):
            whole = dimension.all_reduce(whole).land()
        return whole[ctx.own], None, None, None


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
