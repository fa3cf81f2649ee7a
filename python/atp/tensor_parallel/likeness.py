"""Recognizes modules of other libraries by what they compute, without importing them.

A name and a shape are not enough: an RMSNorm may add one to its weight. So a module that looks like
a known one is run on random numbers, with random parameters, and compared to the known formula.
"""

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

__all__ = [
    "behaves_as",
    "features_of",
    "is_conv1d",
    "is_rms_norm",
    "keeps_heads_apart",
    "key_of",
]


def is_conv1d(module: nn.Module) -> bool:
    """A Conv1D of transformers: a linear layer whose weight is [in, out]."""
    weight = getattr(module, "weight", None)
    return (
        type(module).__name__ == "Conv1D"
        and isinstance(weight, torch.Tensor)
        and weight.dim() == 2
        and behaves_as(module, weight.shape[0], _conv1d)
    )


def _conv1d(x: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
    return x @ parameters["weight"] + parameters["bias"]


def is_rms_norm(module: nn.Module) -> bool:
    """An RMSNorm of transformers that multiplies by its weight, with no offset."""
    weight = getattr(module, "weight", None)
    epsilon = getattr(module, "variance_epsilon", None)
    return (
        type(module).__name__.endswith("RMSNorm")
        and isinstance(epsilon, float)
        and isinstance(weight, torch.Tensor)
        and weight.dim() == 1
        and behaves_as(module, weight.numel(), functools.partial(_rms_norm, epsilon))
    )


def _rms_norm(epsilon: float, x: torch.Tensor, parameters: dict[str, torch.Tensor]):
    return nn.functional.rms_norm(x, x.shape[-1:], parameters["weight"], epsilon)


def features_of(linear: Any) -> tuple[int, int]:
    """The outputs and the inputs of a linear layer."""
    outputs, inputs = linear.weight.mT.shape if is_conv1d(linear) else linear.weight.shape
    return outputs, inputs


def behaves_as(
    module: nn.Module,
    width: int,
    expected: Callable[[torch.Tensor, dict[str, torch.Tensor]], torch.Tensor],
) -> bool:
    """Whether a module computes the same as `expected` from [b, s, width] and its parameters.

    The module runs in evaluation mode, where dropout drops nothing. Of several modules that differ
    only in their parameters, only one runs. A module that raises does not match.
    """
    key = key_of(module, width, expected)
    return _once(key, lambda: _ask(module, width, expected))


def _once(key: tuple, ask: Callable[[], bool]) -> bool:
    if key not in _answers:
        _answers[key] = ask()
    return _answers[key]


_answers: dict[tuple, bool] = {}


def key_of(module: nn.Module, width: Any, expected: Any, without: str = "") -> tuple:
    """The answer's key: everything in which modules of a class may differ except parameters, and
    the attribute `without`."""
    own = vars(module).keys() - vars(nn.Module()).keys() - {without}
    settings = tuple((name, _setting(vars(module)[name])) for name in sorted(own))
    buffers = tuple((name, _setting(buffer)) for name, buffer in module.named_buffers())
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
    formula = getattr(expected, "func", expected)
    return type(module), formula, repr(module), settings, buffers, width, shapes


def _setting(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.dtype, tuple(value.shape), repr(value.tolist())
    if isinstance(value, (bool, int, float, str, type(None))):
        return type(value), repr(value)
    if isinstance(value, (list, tuple)):
        return type(value), tuple(_setting(each) for each in value)
    return _Same(value)  # e.g. a configuration that the layers of a model share


class _Same:
    """Equal only if it holds the very same object, which it keeps alive."""

    def __init__(self, value: Any):
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self._value is other._value

    def __hash__(self) -> int:
        return id(self._value)


def _ask(module: nn.Module, width: int, expected: Callable) -> bool:
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator, device="cpu", dtype=torch.float32)
    parameters = {name: draw(p.shape) for name, p in module.named_parameters()}
    x = draw((2, 3, width))
    try:
        with _in_evaluation(module):
            found = functional_call(module, parameters, (x,))
            wanted = expected(x, parameters)
    except Exception:
        return False
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        return False
    return bool((found - wanted).norm() <= 1e-4 * wanted.norm())


@contextlib.contextmanager
def _in_evaluation(module: nn.Module) -> Iterator[None]:
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            yield
    finally:
        for each, training in modes:
            each.training = training


def keeps_heads_apart(block: Any, fused: str, output: str, heads: int, width: int) -> bool:
    """Whether one layer computes the queries of all heads, then the keys, then the values: the
    block's output for its first head then depends on that head's values alone."""
    key = key_of(block, width, keeps_heads_apart)
    return _once(key, lambda: _ask_heads(block, fused, output, heads, width))


def _ask_heads(block: Any, fused: str, output: str, heads: int, width: int) -> bool:
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator, device="cpu", dtype=torch.float32)
    parameters = {name: 0.3 * draw(p.shape) for name, p in block.named_parameters()}
    of_first = (torch.arange(3 * heads * width) % (heads * width)) < width
    others = dict(parameters)
    for name in (f"{fused}.weight", f"{fused}.bias"):
        if name in parameters:
            axis = -1 if is_conv1d(block.get_submodule(fused)) else 0
            own = parameters[name].movedim(axis, -1)
            others[name] = torch.where(of_first, own, 0.3 * draw(own.shape)).movedim(-1, axis)
    x, seen = draw((2, 3, parameters[f"{output}.weight"].numel() // (heads * width))), []
    handle = block.get_submodule(output).register_forward_pre_hook(
        lambda _module, inputs: seen.append(inputs[0])
    )
    try:
        with _in_evaluation(block), _on_any_device(block):
            for each in (parameters, others):
                functional_call(block, each, (x,))
        one, other = (each.unflatten(-1, (heads, width)) for each in seen)
    except Exception:
        return False
    finally:
        handle.remove()
    apart = torch.isclose(one, other, rtol=1e-4, atol=1e-5)
    return bool(apart[..., 0, :].all()) and (heads == 1 or not apart[..., 1:, :].all())


@contextlib.contextmanager
def _on_any_device(block: Any) -> Iterator[None]:
    """Kernels chosen in a config of transformers may need an accelerator."""
    config = getattr(block, "config", None)
    if getattr(config, "_attn_implementation", None) is None:
        yield
        return
    block.config = copy.copy(config)
    block.config._attn_implementation = "eager"
    try:
        yield
    finally:
        block.config = config
