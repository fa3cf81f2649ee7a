"""A head that returns whole logits, as the models of other libraries do."""

from typing import Any

import torch
from torch import nn
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.checks import Turns, watch_gradient
from atp.tensor_parallel.embedding import first_token, vocabulary_part
from atp.tensor_parallel.linear import ATPLinear
from atp.tensor_parallel.mesh import Mesh

__all__ = ["ATPHead"]


class ATPHead(ATPLinear):
    """[..., h/d2] -> [..., V]: column-first, and the rows' parts of the vocabulary concatenated.

    Every rank must compute the same loss from it, which is checked: each keeps its part of the
    gradient, and nothing is summed.

    Raises:
        ValueError: a rank has only some tokens here; a model of transformers has all of them
            outside its blocks.
    """

    @classmethod
    def of(cls, linear: nn.Linear, mesh: Mesh, site: str) -> "ATPHead":
        if mesh.splits_tokens:
            raise ValueError(
                f"{site}: it needs all tokens of a sequence, of which a rank has only some on "
                f"{mesh}; give it the role Column, or use init_mesh() without sequence_parallel"
            )
        parts = (vocabulary_part(linear.out_features, mesh, site),)
        self = cls.from_linear(linear, "column", mesh, parts, site)
        self.turns = Turns()
        return self

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits = super().forward(x)
        if self.mesh.first.size > 1:
            logits = _GatherVocabulary.apply(logits, self.mesh, self.out_features)
        watch_gradient(logits, self.mesh, self.site, self.turns)
        return logits


class _GatherVocabulary(Function):
    @staticmethod
    def forward(ctx: Any, own: torch.Tensor, mesh: Mesh, vocabulary: int) -> torch.Tensor:
        ctx.begin, ctx.width = first_token(vocabulary, mesh), own.shape[-1]
        longest = -(-vocabulary // mesh.first.size)  # every row sends as much as the first
        padded = nn.functional.pad(own, (0, longest - ctx.width))
        every = mesh.first.all_gather(padded).land()
        return every.movedim(0, -2).flatten(-2)[..., :vocabulary].contiguous()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        return gradient.narrow(-1, ctx.begin, ctx.width).contiguous(), None, None
