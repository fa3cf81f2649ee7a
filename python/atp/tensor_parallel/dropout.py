"""Dropout between the blocks of a model on a mesh."""

import torch
from torch import nn

from atp.tensor_parallel.mesh import Mesh

__all__ = ["ATPDropout"]


class ATPDropout(nn.Module):
    """Dropout of [..., h/d2], the residual stream and its summands: the same in a column, whose
    ranks hold copies; with sequence parallelism different on each rank, as their tokens are."""

    def __init__(self, p: float, mesh: Mesh):
        super().__init__()
        self.p, self._mesh = p, mesh

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        randomness = self._mesh.randomness
        draws = randomness.of_rank if self._mesh.splits_tokens else randomness.of_column
        with draws(x.device):
            return nn.functional.dropout(x, self.p)

    def extra_repr(self) -> str:
        return f"p={self.p}"
