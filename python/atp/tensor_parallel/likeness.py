"""Modules of other libraries that compute what we know, recognized without importing them.

A name and a shape say too little: an RMSNorm may add one to its weight. So a module that looks like
one we know is run on random numbers, with random parameters, beside what it should compute.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

__all__ = ["behaves_as", "features_of", "is_conv1d", "is_rms_norm"]


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
    """An RMSNorm of transformers, whose weight is multiplied as it is."""
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
    """Whether a module makes of [b, s, width] and of its parameters what `expected` does.

    It is asked in evaluation, where dropout drops nothing, and once of modules that differ in
    nothing but their parameters. One that fails does not behave so.
    """
    key = _key(module, width, expected)
    if key not in _answers:
        _answers[key] = _ask(module, width, expected)
    return _answers[key]


_answers: dict[tuple, bool] = {}


def _key(module: nn.Module, width: int, expected: Any) -> tuple:
    """What the answer depends on."""
    plain = (bool, int, float, str, type(None))
    settings = {k: v for k, v in vars(module).items() if isinstance(v, plain) or callable(v)}
    settings.pop("training", None)
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
    formula = getattr(expected, "func", expected)
    return type(module), formula, repr(module), repr(sorted(settings.items())), width, shapes


def _ask(module: nn.Module, width: int, expected: Callable) -> bool:
    generator = torch.Generator().manual_seed(0)
    draw = functools.partial(torch.randn, generator=generator, device="cpu", dtype=torch.float32)
    parameters = {name: draw(p.shape) for name, p in module.named_parameters()}
    x = draw((2, 3, width))
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            found = functional_call(module, parameters, (x,))
            wanted = expected(x, parameters)
    except Exception:
        return False
    finally:
        for each, training in modes:
            each.training = training
    if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
        return False
    return bool((found - wanted).norm() <= 1e-4 * wanted.norm())
