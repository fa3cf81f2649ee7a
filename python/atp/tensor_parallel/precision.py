"""The types in which values are computed: half precision is summed in float32."""

import functools

import torch

__all__ = ["as_autocast_does", "is_half", "product_in_float32", "widened"]


def is_half(x: torch.Tensor) -> bool:
    return x.dtype in (torch.bfloat16, torch.float16)


def widened(x: torch.Tensor) -> torch.Tensor:
    """In float32 at least: statistics and losses need more than half precision."""
    return x.float() if is_half(x) else x


def product_in_float32(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """x times the transpose of a weight, in float32 although both are in half precision: it is a
    rank's part of a sum, which is rounded only at the end."""
    with torch.autocast(x.device.type, enabled=False):
        if x.device.type == "cuda":
            product = torch.mm(x.flatten(0, -2), weight.mT, out_dtype=torch.float32)
            return product.unflatten(0, x.shape[:-1])
        if x.dtype == torch.bfloat16 and _multiplies_bfloat16(x.device.type):
            return _product_and_remainder(x.flatten(0, -2), weight.mT).unflatten(0, x.shape[:-1])
        return torch.nn.functional.linear(x.float(), weight.float())


@functools.cache
def _multiplies_bfloat16(device_type: str) -> bool:
    """Whether this is a processor with instructions for products of bfloat16."""
    if device_type != "cpu":
        return False
    known = torch.cpu.get_capabilities()
    return bool(known.get("amx_bf16") or known.get("avx512_bf16"))


def _product_and_remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The product, rounded, plus its rounding error, where torch has no product that returns
    float32. This takes two products, is faster than one of float32, and has 16 of its 24 bits."""
    rounded = torch.mm(x, y)
    return rounded.float().add_(torch.addmm(rounded, x, y, beta=-1))


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
