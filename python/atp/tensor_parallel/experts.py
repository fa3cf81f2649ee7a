"""Experts and their routers, in blocks that keep their own forward pass.

The experts' matrices are split over all ranks along the inner axis, as those of a feed-forward
block are, and each rank runs all experts with its part of each. Before, the tokens' values are
gathered on dimension 2; after, the partial results are summed over all ranks, and each keeps its
columns. A router is whole on every rank, since it needs all values of a token.

What a router returns is whole, and what is made of it meets pieces: its gradient on a rank is of
these only, and is summed on dimension 2.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.copies import sum_over_ranks
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.kept_forward import KeptForward
from atp.tensor_parallel.linear import require_divides, require_piece
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.moves import Gather, Heads, ReduceSlice, Slice
from atp.tensor_parallel.sharding import Cut

__all__ = ["ATPExperts", "ATPRouter", "count_columns", "refuse_split_tokens"]


def count_columns(block: nn.Module, experts: "ATPExperts") -> None:
    """The block around experts, whose own code has a rank's columns, counts these."""
    for name in ("input_size", "hidden_size", "hidden_dim"):
        if vars(block).get(name) == experts.width:
            setattr(block, name, experts.width // experts.mesh.second.size)


def refuse_split_tokens(mesh: Mesh, site: str) -> None:
    if mesh.splits_tokens:
        raise ValueError(
            f"{site}: sequence parallelism does not support experts; use init_mesh() without "
            "sequence_parallel"
        )


class ATPRouter(KeptForward):
    """A router, or a gate of one value for each token: [..., h/d2] -> its results, whole."""

    def __init__(self, inner: nn.Module, width: int, mesh: Mesh, site: str):
        refuse_split_tokens(mesh, site)
        require_divides(mesh.second, site, "features", width)
        super().__init__(
            inner, {n: Cut() for n, p in inner._parameters.items() if p is not None}, mesh
        )
        self.width, self.site = width, site

    def forward(self, x: torch.Tensor, *inputs: Any, **named: Any) -> Any:
        require_piece(self.site, x, self.width, self.mesh)
        whole = _GatherColumns.apply(x, self.mesh.second)
        said = super().forward(whole, *inputs, **named)
        if isinstance(said, tuple):
            return tuple(self._summed(each) for each in said)
        return self._summed(said)

    def _summed(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        return _SumBackward.apply(value, self.mesh.second)


class ATPExperts(KeptForward):
    """[tokens, h/d2] and what the router says -> [tokens, h/d2].

    once: the names of biases of the result, which all ranks together add once.
    """

    def __init__(
        self, inner: Any, width: int, cuts: dict[str, Cut], once: tuple, mesh: Mesh, site: str
    ):
        refuse_split_tokens(mesh, site)
        require_divides(mesh.second, site, "features", width)
        super().__init__(inner, cuts, mesh)
        self.width, self.site, self._once = width, site, once
        self._ranks = mesh.first.size * mesh.second.size

    def used(self, name: str) -> torch.Tensor | None:
        if name in self._once:
            return sum_over_ranks(self, name) / self._ranks
        return super().used(name)

    def forward(self, x: torch.Tensor, *said: Any, **named: Any) -> torch.Tensor:
        require_piece(self.site, x, self.width, self.mesh)
        first, second = self.mesh.first, self.mesh.second
        whole = _GatherPartial.apply(x, first, second)
        said = tuple(self._summed(each) for each in said)
        named = {name: self._summed(each) for name, each in named.items()}
        return _Leave.apply(super().forward(whole, *said, **named), first, second)

    def _summed(self, value: Any) -> Any:
        """The router's weights, whose gradients on a rank are of its part of the experts."""
        if not isinstance(value, torch.Tensor) or not value.requires_grad:
            return value
        return _SumBackward.apply(value, self.mesh.first)


def _columns(x: torch.Tensor, second: Dimension, whole: bool) -> Heads:
    return Heads(second.size, (x.shape[-1] * (1 if whole else second.size),), (1,))


class _GatherColumns(Function):
    """Backward, every rank has the whole gradient, and keeps its columns."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, second: Dimension) -> torch.Tensor:
        ctx.second, ctx.columns = second, _columns(x, second, whole=False)
        return Gather(second, ctx.columns).start(x).land()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        return Slice(ctx.second, ctx.columns).start(gradient).land(), None


class _GatherPartial(Function):
    """Backward, the gradients of all ranks are summed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, first: Dimension, second: Dimension) -> torch.Tensor:
        ctx.first, ctx.second, ctx.columns = first, second, _columns(x, second, whole=False)
        return Gather(second, ctx.columns).start(x).land()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        own = ReduceSlice(ctx.second, ctx.columns).start(gradient.clone()).land()
        return ctx.first.all_reduce(own).land(), None, None


class _Leave(Function):
    """The sum over all ranks, of which each keeps its columns."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, first: Dimension, second: Dimension) -> torch.Tensor:
        ctx.second, ctx.columns = second, _columns(x, second, whole=True)
        own = ReduceSlice(second, ctx.columns).start(x.clone()).land()
        return first.all_reduce(own).land()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        return Gather(ctx.second, ctx.columns).start(gradient).land(), None, None


class _SumBackward(Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, dimension: Dimension) -> torch.Tensor:
        ctx.dimension = dimension
        return x.view_as(x)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        return ctx.dimension.all_reduce(gradient.clone()).land(), None
