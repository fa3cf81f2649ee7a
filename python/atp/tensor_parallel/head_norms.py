"""Modules inside an attention block's core that have parameters: norms of queries and of keys.

A rank applies them to its own heads. A parameter that is the same for all heads is whole on every
rank, and its gradient is summed over all ranks; one with values for each head is split over all
ranks, as the heads are. A norm over the values of all heads together needs their sum of squares,
from all ranks.
"""

import torch
from torch import nn

from atp.tensor_parallel.copies import sum_over_ranks
from atp.tensor_parallel.kept_forward import KeptForward
from atp.tensor_parallel.likeness import NormFormula
from atp.tensor_parallel.linear import cut_parameter
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.norm import Sums, normalize
from atp.tensor_parallel.sharding import Cut, adopt

__all__ = ["NormOverHeads", "OnOwnHeads"]


class OnOwnHeads(KeptForward):
    """A module that keeps its own forward pass on this rank's heads."""

    def used(self, name: str) -> torch.Tensor | None:
        return sum_over_ranks(self, name)


class NormOverHeads(nn.Module):
    """A norm over the queries, or the keys, of all heads of a token: [..., this rank's] -> same.

    copies: how many ranks have the same key-value heads.
    """

    def __init__(self, norm: nn.Module, formula: NormFormula, cut: Cut, mesh: Mesh, site: str):
        super().__init__()
        self.mesh, self.site, self.formula = mesh, site, formula
        self.width = cut.parts[0].size
        self.copies = mesh.first.size * mesh.second.size // cut.parts[0].pieces
        for name in ("weight", "bias"):
            adopt(self, name, cut_parameter(getattr(norm, name, None), cut, mesh), cut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight, bias = sum_over_ranks(self, "weight"), sum_over_ranks(self, "bias")
        if weight is not None and x.shape[-1] != weight.shape[-1]:
            raise ValueError(
                f"{self.site}: found {x.shape[-1]} values, expected {weight.shape[-1]} for a "
                "rank's heads"
            )
        sums = Sums((self.mesh.first, self.mesh.second), self.width * self.copies)
        return normalize(x, sums, self.formula, weight, bias)
