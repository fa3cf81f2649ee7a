"""Communication hooks for DistributedDataParallel: the average of a bucket, parameter by parameter.

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, atp.torch.ddp_hook)

A bucket holds the gradients of several parameters. The ranks agree on a unit for every 256 values,
and what is far smaller than the largest of these loses bits, or vanishes. Only a hook is told where
in its bucket a parameter ends, so only with one does each begin with a block of its own: without,
the last values of one layer share a block with the first ones of the next, whatever their
magnitudes are.
"""

import torch
import torch.distributed as dist

from atp.torch._stats import backend_of

__all__ = ["ddp_hook", "int16_hook"]


def ddp_hook(
    state: dist.ProcessGroup | None, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """Averages the bucket over the group, `state` (None: the default group)."""
    return _average(state, bucket, "")


def int16_hook(
    state: dist.ProcessGroup | None, bucket: dist.GradBucket
) -> torch.futures.Future[torch.Tensor]:
    """As ddp_hook, with 16 bits on the wire for each value: half the bytes, for up to 64 ranks.

    For this model only; Options(wire="int16") is for all sums of a group. Gradients that are not
    float32, bfloat16 or float16 are refused, and over a ring those that are not float32.
    """
    return _average(state, bucket, "int16")


def _average(group, bucket, numbers):
    group = group if group is not None else dist.group.WORLD
    buffer = bucket.buffer()
    if buffer.layout == torch.strided:
        lengths = [gradient.numel() for gradient in bucket.gradients()]
        work = backend_of(group).average_segments(buffer, lengths, numbers)
    else:
        if numbers:
            raise ValueError(
                f"int16_hook needs dense gradients, and found {buffer.layout}: use "
                "atp.torch.ddp_hook"
            )
        # Gloo, which sums sparse tensors, knows no average of them.
        buffer = buffer.div_(dist.get_world_size(group))
        work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
