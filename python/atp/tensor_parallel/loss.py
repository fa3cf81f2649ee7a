"""Cross entropy over a vocabulary that is cut over dimension 1 (not in the paper)."""

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.embedding import require_tokens
from atp.tensor_parallel.mesh import Mesh, current_mesh

__all__ = ["vocabulary_parallel_cross_entropy"]


class _CrossEntropy(Function):
    @staticmethod
    def forward(ctx: Any, logits: torch.Tensor, targets: torch.Tensor, mesh: Mesh) -> torch.Tensor:
        first, width = mesh.first, logits.shape[-1]
        largest = logits.amax(-1)
        largest = first.all_reduce(largest, op=dist.ReduceOp.MAX).land()
        exponentials = (logits - largest.unsqueeze(-1)).exp()
        own = targets - first.index * width
        missing = (own < 0) | (own >= width)
        own = own.masked_fill(missing, 0).unsqueeze(-1)
        of_target = (logits.gather(-1, own).squeeze(-1) - largest).masked_fill(missing, 0)
        # Two sums of a value a token: of the exponentials, and the logit that one row has.
        sums = torch.stack((exponentials.sum(-1), of_target))
        sums = first.all_reduce(sums).land()
        ctx.save_for_backward(exponentials.div_(sums[0].unsqueeze(-1)), own, missing)
        return (sums[0].log() - sums[1]).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        probabilities, own, missing = ctx.saved_tensors
        of_logits = probabilities.clone()
        hit = (~missing).to(of_logits.dtype).unsqueeze(-1)
        of_logits.scatter_add_(-1, own, -hit)
        return of_logits.mul_(gradient / missing.numel()), None, None


def vocabulary_parallel_cross_entropy(
    logits: torch.Tensor, targets: torch.Tensor, mesh: Mesh | None = None
) -> torch.Tensor:
    """The mean cross entropy, the same at every rank of the mesh.

    Args:
        logits: [..., V/d1], as a column-first head makes them.
        targets: [...], numbers from 0 to V - 1, the same at every rank.
        mesh: default: the one that init_mesh() made last.

    Raises:
        ValueError: a target is none of the vocabulary's; at every rank.
    """
    mesh = mesh or current_mesh()
    require_tokens("targets", targets, logits.shape[-1] * mesh.first.size)
    return _CrossEntropy.apply(logits, targets, mesh)
