"""Which type a step is computed in: what has few bits is summed in more."""

import torch

__all__ = ["as_autocast_does", "widened"]


def widened(x: torch.Tensor) -> torch.Tensor:
    """In float32 at least: statistics and losses of half precision fail in their own type."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def as_autocast_does(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """What a product gets under torch.autocast.

    Autocast sees only torch's own products, and ours are autograd functions, whose backward pass
    must find the types of their forward pass. So the types change before, where autograd notes it.
    """
    kind = next(tensor.device.type for tensor in tensors if tensor is not None)
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(
        tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)
        for tensor in tensors
    )
