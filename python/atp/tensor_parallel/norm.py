"""LayerNorm and RMSNorm over a hidden size that is split over dimension 2.

The paper leaves them out. The statistics of a token are sums over the whole hidden size: forward,
LayerNorm reduces two values per token, one after the other (the mean, then the squared deviations,
so that nothing cancels), RMSNorm one; backward, each reduces as many, all at once. Inputs in half
precision are computed in float32, as in torch's own norms.
"""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.copies import used_by_tokens
from atp.tensor_parallel.likeness import is_rms_norm
from atp.tensor_parallel.linear import cut_parameter, require_divides, require_piece
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.precision import widened
from atp.tensor_parallel.sharding import Cut, adopt, piece

__all__ = ["ATPLayerNorm", "ATPRMSNorm"]


class _Sums:
    """The sums over dimension 2."""

    def __init__(self, mesh: Mesh, width: int):
        self._dimension = mesh.second
        self.width = width  # the whole hidden size

    def mean(self, of_own: torch.Tensor) -> torch.Tensor:
        """[..., k, h/d2] -> [..., k, 1]: the means over h."""
        own = of_own.sum(-1, keepdim=True) / self.width
        return self._dimension.all_reduce(own).land()


class _Normalize(Function):
    """(x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon) uncentered."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, sums: _Sums, epsilon: float, centered: bool):
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


class _ShardedNorm(nn.Module):
    centered: bool

    def __init__(
        self,
        width: int,
        epsilon: float | None,
        weight: torch.Tensor | None,
        bias: torch.Tensor | None,
        mesh: Mesh,
        site: str,
    ):
        super().__init__()
        require_divides(mesh.second, site, "features", width)
        self.width, self.eps, self.mesh, self.site = width, epsilon, mesh, site
        cut = Cut(None, 0)
        adopt(self, "weight", cut_parameter(weight, cut, mesh), cut)
        adopt(self, "bias", cut_parameter(bias, cut, mesh), cut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """[..., h/d2] -> [..., h/d2]."""
        require_piece(self.site, x, self.width, self.mesh)
        sums = _Sums(self.mesh, self.width)
        epsilon = torch.finfo(x.dtype).eps if self.eps is None else self.eps  # as torch's RMSNorm
        normal = _Normalize.apply(x, sums, epsilon, self.centered)
        weight, bias = used_by_tokens(self.mesh, piece(self, "weight"), piece(self, "bias"))
        if weight is not None:
            normal = normal * weight
        if bias is not None:
            normal = normal + bias
        return normal.to(self._result_type(x))

    def _result_type(self, x: torch.Tensor) -> torch.dtype:
        """The output's type, as in torch's norms: float32 under autocast."""
        if torch.is_autocast_enabled(x.device.type):
            return torch.promote_types(x.dtype, torch.float32)
        return x.dtype if self.weight is None else torch.promote_types(x.dtype, self.weight.dtype)

    def extra_repr(self) -> str:
        return f"{self.width}, eps={self.eps}, on {self.mesh.shape}"


class ATPLayerNorm(_ShardedNorm):
    """LayerNorm of [..., h/d2]; weight and bias are [Replicate, Shard(0)]."""

    centered = True

    @classmethod
    def from_norm(cls, norm: nn.LayerNorm, mesh: Mesh, site: str = "norm") -> "ATPLayerNorm":
        if len(norm.normalized_shape) != 1:
            raise ValueError(f"{site}: a LayerNorm over several axes cannot be split")
        return cls(norm.normalized_shape[0], norm.eps, norm.weight, norm.bias, mesh, site)


class ATPRMSNorm(_ShardedNorm):
    """RMSNorm of [..., h/d2]; the weight is [Replicate, Shard(0)]."""

    centered = False

    @classmethod
    def from_norm(cls, norm: nn.Module, mesh: Mesh, site: str = "norm") -> "ATPRMSNorm":
        """Takes this rank's piece of an nn.RMSNorm, or of one of transformers'."""
        if is_rms_norm(norm):
            return cls(norm.weight.numel(), norm.variance_epsilon, norm.weight, None, mesh, site)
        if len(norm.normalized_shape) != 1:
            raise ValueError(f"{site}: an RMSNorm over several axes cannot be split")
        return cls(norm.normalized_shape[0], norm.eps, norm.weight, None, mesh, site)
