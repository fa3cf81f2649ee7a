"""Communication hooks for DistributedDataParallel: the average of a bucket, parameter by parameter.

    model = DistributedDataParallel(model)
    model.register_comm_hook(None, atp.torch.ddp_hook)

A bucket holds the gradients of several parameters. The ranks agree on a unit for every 256 values;
values far smaller than the largest of them lose bits, or vanish. Only a hook gets the places where
parameters end in the bucket, so only a hook starts a new block with each parameter. Without one,
the last values of a layer share a block with the first values of the next, whatever their
magnitudes.
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
    """Like ddp_hook, with 16 bits on the wire for each value: half the bytes, for up to 64 ranks.

    It applies to this model only; Options(wire="int16") applies to all sums of a group. Gradients
    that are not float32, bfloat16 or float16 are refused; over a ring, all but float32 are.
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
                f"int16_hook needs dense gradients, but found {buffer.layout}: use "
                "atp.torch.ddp_hook"
            )
        # Gloo sums sparse tensors, but does not average them.
        buffer = buffer.div_(dist.get_world_size(group))
        work = dist.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])
