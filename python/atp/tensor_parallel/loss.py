"""Cross entropy over a vocabulary that is split over dimension 1 (not in the paper)."""

from typing import Any

import torch
import torch.distributed as dist
from torch.autograd.function import Function, once_differentiable

from atp.tensor_parallel.checks import check_targets
from atp.tensor_parallel.embedding import first_token, require_tokens
from atp.tensor_parallel.mesh import Mesh, current_mesh
from atp.tensor_parallel.precision import widened

__all__ = ["vocabulary_parallel_cross_entropy"]


class _CrossEntropy(Function):
    """The loss of a row's logits, the first of which is token `begin`, summed over all targets."""

    @staticmethod
    def forward(
        ctx: Any,
        logits: torch.Tensor,
        targets: torch.Tensor,
        counts: torch.Tensor,
        mesh: Mesh,
        begin: int,
    ) -> torch.Tensor:
        first, wide = mesh.first, widened(logits)
        largest = first.all_reduce(wide.amax(-1), op=dist.ReduceOp.MAX).land()
        exponentials = (wide - largest.unsqueeze(-1)).exp()
        own = targets - begin
        missing = (own < 0) | (own >= logits.shape[-1])
        own = own.masked_fill(missing, 0).unsqueeze(-1)
        of_target = (wide.gather(-1, own).squeeze(-1) - largest).masked_fill(missing, 0)
        # Two sums of one value per token: of the exponentials, and of the target's logit, which
        # only one row has.
        sums = torch.stack((exponentials.sum(-1), of_target))
        sums = first.all_reduce(sums).land()
        ctx.type = logits.dtype
        ctx.save_for_backward(exponentials.div_(sums[0].unsqueeze(-1)), own, missing, counts)
        return (sums[0].log() - sums[1]).masked_fill(~counts, 0).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor):
        probabilities, own, missing, counts = ctx.saved_tensors
        of_logits = probabilities.clone()
        hit = (~missing).to(of_logits.dtype).unsqueeze(-1)
        of_logits.scatter_add_(-1, own, -hit)
        of_logits.mul_(gradient).masked_fill_(~counts.unsqueeze(-1), 0)
        return of_logits.to(ctx.type), None, None, None, None


def vocabulary_parallel_cross_entropy(
    logits: torch.Tensor,
    targets: torch.Tensor,
    mesh: Mesh | None = None,
    *,
    vocabulary: int | None = None,
    ignore_index: int = -100,
    count: torch.Tensor | int | None = None,
) -> torch.Tensor:
    """The mean cross entropy, in float32 at least, the same on every rank of the mesh.

    Args:
        logits: [..., V/d1], the output of a column-first head.
        targets: [...], numbers from 0 to V - 1, the same on every rank.
        mesh: default: the one that init_mesh() made last.
        vocabulary: V, needed if d1 does not divide it.
        ignore_index: a target that does not count, as in torch.
        count: the divisor of the sum; default: the number of targets that count.

    Raises:
        ValueError: a target is not in the vocabulary, or ranks have different ones; raised on
            every rank.
    """
    mesh = mesh or current_mesh()
    check_targets(targets, mesh)
    vocabulary = vocabulary or logits.shape[-1] * mesh.first.size
    counts = targets != ignore_index
    require_tokens("targets", targets[counts], vocabulary)
    begin = first_token(vocabulary, mesh)
    loss = _CrossEntropy.apply(logits, targets, counts, mesh, begin)
    return loss / (counts.sum() if count is None else count)
