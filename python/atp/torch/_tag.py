"""Call sites: sums of other magnitude want scales of their own."""

import torch.distributed as dist

from atp import _C
from atp.torch._stats import _backend_of

__all__ = ["set_tag"]


def set_tag(group: dist.ProcessGroup, tag: int) -> None:
    """Names the call site of the sums that `group` will be asked for, until the next set_tag().

    The automatic scale follows the values of the sums of one length and tag. Sums of one length
    whose magnitudes differ (activations here, gradients there) are more precise, and take the float
    path less often, under tags of their own. Tags are part of what the ranks must agree on.

    Args:
        tag: from 0, which every group begins with, to 2^32 - 1; the same at every rank.
    """
    backend = _backend_of(group)
    if isinstance(backend, _C.InNetworkGroup):  # a ring sums floats and has no scale
        backend.set_tag(tag)
