"""LayerNorm and RMSNorm over a hidden size that is split over dimension 2.

The paper leaves them out. The statistics of a token are sums over the whole hidden size: forward,
LayerNorm reduces two values per token, one after the other (the mean, then the squared deviations,
so that nothing cancels), RMSNorm one; backward, each reduces as many, all at once. Inputs in half
precision are computed in float32, as in torch's own norms.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.copies import used_by_tokens
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.likeness import NormFormula, formula_of_norm, width_of_norm
from atp.tensor_parallel.linear import cut_parameter, require_divides, require_piece
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.precision import widened
from atp.tensor_parallel.sharding import Cut, adopt, piece

__all__ = ["ATPLayerNorm", "ATPNorm", "ATPRMSNorm", "Sums", "norm_of", "normalize"]


class Sums:
    """The sums over some dimensions of the mesh, of `width` values in all."""

    def __init__(self, dimensions: Sequence[Dimension], width: int):
        self._dimensions = dimensions
        self.width = width

    def mean(self, of_own: torch.Tensor) -> torch.Tensor:
        """[..., k, own] -> [..., k, 1]: the means over all values."""
        own = of_own.sum(-1, keepdim=True) / self.width
        for dimension in self._dimensions:
            own = dimension.all_reduce(own).land()
        return own


class _Normalize(Function):
    """(x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon) uncentered."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sums: Sums, epsilon: float, centered: bool):
        wide = widened(x)
        if centered:
            wide = wide - sums.mean(wide)
        scale = (sums.mean(wide.square()) + epsilon).rsqrt()
        normal = wide * scale
        ctx.sums, ctx.centered = sums, centered
        ctx.save_for_backward(normal, scale)
        return normal  # at least float32, for the weight; autograd narrows the gradient

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        normal, scale = ctx.saved_tensors
        products = gradient * normal
        if not ctx.centered:
            of_normal = gradient - normal * ctx.sums.mean(products)
            return of_normal * scale, None, None, None
        means = ctx.sums.mean(torch.stack((products, gradient)))
        return (gradient - normal * means[0] - means[1]) * scale, None, None, None


def normalize(
    x: torch.Tensor,
    sums: Sums,
    formula: NormFormula,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    """What the formula makes of pieces of a token's values, with pieces of weight and bias."""
    epsilon = torch.finfo(x.dtype).eps if formula.epsilon is None else formula.epsilon
    normal = _Normalize.apply(x, sums, epsilon, formula.centered)
    kind = _result_type(x, weight, formula)
    if weight is not None:
        normal = normal * (weight if not formula.offset else formula.offset + weight)
    if bias is not None:
        normal = normal + bias
    return normal.to(kind)


def _result_type(x: torch.Tensor, weight: torch.Tensor | None, formula: NormFormula) -> torch.dtype:
    """The output's type, as in torch's norms: float32 under autocast."""
    if torch.is_autocast_enabled(x.device.type):
        return torch.promote_types(x.dtype, torch.float32)
    return x.dtype if weight is None else torch.promote_types(x.dtype, weight.dtype)


class ATPNorm(nn.Module):
    """A norm of [..., h/d2] over h; weight and bias are [Replicate, Shard(0)]."""

    def __init__(
        self,
        width: int,
        formula: NormFormula,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        mesh: Mesh,
        site: str,
    ):
        super().__init__()
        require_divides(mesh.second, site, "features", width)
        self.width, self.formula, self.mesh, self.site = width, formula, mesh, site
        cut = Cut(None, 0)
        adopt(self, "weight", cut_parameter(weight, cut, mesh), cut)
        adopt(self, "bias", cut_parameter(bias, cut, mesh), cut)

    @property
    def eps(self) -> float | None:
        return self.formula.epsilon

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., h/d2] -> [..., h/d2]."""
        require_piece(self.site, x, self.width, self.mesh)
        weight, bias = used_by_tokens(self.mesh, piece(self, "weight"), piece(self, "bias"))
        return normalize(x, Sums((self.mesh.second,), self.width), self.formula, weight, bias)

    def extra_repr(self) -> str:
        return f"{self.width}, eps={self.eps}, on {self.mesh.shape}"


class ATPLayerNorm(ATPNorm):
    """A norm that subtracts the mean."""


class ATPRMSNorm(ATPNorm):
    """A norm that does not."""


def norm_of(norm: Any, mesh: Mesh, site: str = "norm", width: int | None = None) -> ATPNorm:
    """This rank's piece of a norm of torch or of another library.

    width: the hidden size, if the norm has no weight that tells it.
    """
    formula = formula_of_norm(norm, width)
    if formula is None:
        raise ValueError(f"{site}: a {type(norm).__name__} over several axes cannot be split")
    weight, bias = getattr(norm, "weight", None), getattr(norm, "bias", None)
    kind = ATPLayerNorm if formula.centered else ATPRMSNorm
    return kind(width_of_norm(norm) or width, formula, weight, bias, mesh, site)
