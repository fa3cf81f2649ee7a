"""The types in which values are computed: half precision is summed in float32."""

import torch

__all__ = ["as_autocast_does", "widened"]


def widened(x: torch.Tensor) -> torch.Tensor:
    """In at least float32: statistics and losses of half precision fail in their own type."""
    return x.float() if x.dtype in (torch.bfloat16, torch.float16) else x


def as_autocast_does(*tensors: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
    """The operands of a product under torch.autocast.

    Autocast handles only torch's own products. Ours are autograd functions, whose backward pass
    needs the types of the forward pass. So the types change before them, where autograd records it.
    """
    kind = next(tensor.device.type for tensor in tensors if tensor is not None)
    if not torch.is_autocast_enabled(kind):
        return tensors
    dtype = torch.get_autocast_dtype(kind)
    return tuple(
        tensor if tensor is None or tensor.dtype == torch.float64 else tensor.to(dtype)
        for tensor in tensors
    )
