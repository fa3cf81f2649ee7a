"""Recognizes modules of other libraries by what they compute, without importing them.

A name and a shape are not enough: an RMSNorm may add one to its weight. So a module that looks like
a known one is run on random numbers, with random parameters, and compared to the known formula.
"""

import contextlib
import copy
import dataclasses
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

__all__ = [
    "NormFormula",
    "behaves_as",
    "features_of",
    "formula_of_norm",
    "in_evaluation",
    "is_conv1d",
    "is_linear",
    "key_of",
    "looks_up_columns",
    "on_any_device",
    "once",
    "scale_of_embedding",
    "width_of_norm",
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


def is_linear(module: nn.Module | None) -> bool:
    """An nn.Linear, or a Conv1D of transformers; a subclass may compute something else."""
    if type(module) is nn.Linear or is_conv1d(module):
        return True
    return isinstance(module, nn.Linear) and behaves_as(module, module.in_features, _linear)


def _linear(x: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.linear(x, parameters["weight"], parameters.get("bias"))


def _conv1d(x: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
    return x @ parameters["weight"] + parameters["bias"]


@dataclasses.dataclass(frozen=True)
class NormFormula:
    """(x - mean) / sqrt(variance + epsilon), or x / sqrt(mean square + epsilon) uncentered, times
    the weight plus `offset`, plus the bias. epsilon: None: that of x's type."""

    centered: bool
    epsilon: float | None
    offset: float = 0.0

    def __call__(self, x: torch.Tensor, parameters: dict[str, torch.Tensor]) -> torch.Tensor:
        width, weight = x.shape[-1:], parameters.get("weight")
        weight = weight + self.offset if weight is not None and self.offset else weight
        if self.centered:
            functional = nn.functional.layer_norm
            return functional(x, width, weight, parameters.get("bias"), self.epsilon)
        return nn.functional.rms_norm(x, width, weight, self.epsilon)


def formula_of_norm(module: nn.Module, width: int | None = None) -> NormFormula | None:
    """What a norm over the last axis computes, of torch or of another library; None if it is not
    known. width: the last axis's, if the module does not tell."""
    if type(module) in (nn.LayerNorm, nn.RMSNorm):
        alone = len(module.normalized_shape) == 1
        return NormFormula(type(module) is nn.LayerNorm, module.eps) if alone else None
    width = width_of_norm(module) or width
    if width is None or "norm" not in type(module).__name__.lower():
        return None
    if not module._parameters.keys() <= {"weight", "bias"} or [*module.children()]:
        return None
    own = [value for value in vars(module).values() if type(value) is float]
    for epsilon in dict.fromkeys((*own, 1e-5, 1e-6)):
        for centered in (False, True):
            for offset in (0.0, 1.0):
                formula = NormFormula(centered, epsilon, offset)
                if behaves_as(module, width, formula):
                    return formula
    return None


def width_of_norm(module: nn.Module) -> int | None:
    """How many values it normalizes."""
    weight = getattr(module, "weight", None)
    if isinstance(weight, torch.Tensor):
        return weight.numel() if weight.dim() == 1 else None
    shape = getattr(module, "normalized_shape", None)
    return shape[0] if shape is not None and len(shape) == 1 else None


def scale_of_embedding(module: nn.Embedding) -> float | None:
    """What it multiplies the rows of its table by; None if it computes something else."""
    if type(module) is nn.Embedding:
        return 1.0
    tokens = torch.tensor([[0, 2, 1]])
    ones = torch.ones(module.num_embeddings, 4, dtype=module.weight.dtype)
    table = torch.randn(ones.shape, generator=torch.Generator().manual_seed(0)).to(ones.dtype)
    try:
        with in_evaluation(module), on_cpu(module):
            scale = functional_call(module, {"weight": ones}, (tokens,))[0, 0, 0].item()
            found = functional_call(module, {"weight": table}, (tokens,))
    except Exception:
        return None
    wanted = nn.functional.embedding(tokens, table) * scale
    return (
        scale if torch.allclose(found, wanted, 1e-2 if ones.dtype.itemsize < 4 else 1e-5) else None
    )


def looks_up_columns(module: nn.Embedding) -> bool:
    """Whether some columns of its table give the same columns of its result."""
    table = torch.randn(module.num_embeddings, 8, generator=torch.Generator().manual_seed(0))
    given = torch.ones(2, 3, dtype=torch.long)
    for arguments in ((given,), (given.shape,)):
        try:
            with in_evaluation(module), on_cpu(module):
                whole = functional_call(module, {"weight": table}, arguments)
                half = functional_call(module, {"weight": table[:, 4:]}, arguments)
        except Exception:
            continue
        return torch.equal(whole[..., 4:], half)
    return False


@contextlib.contextmanager
def on_cpu(module: nn.Module) -> Iterator[None]:
    """Its buffers, which random numbers of this machine are combined with."""
    before = dict(module._buffers)
    module._buffers.update(
        {k: b.cpu() for k, b in before.items() if b is not None and not b.is_meta}
    )
    try:
        yield
    finally:
        module._buffers.update(before)


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
    return once(key, lambda: _ask(module, width, expected))


def once(key: tuple, ask: Callable[[], Any]) -> Any:
    """What `ask` answered first for this key."""
    if key not in _answers:
        _answers[key] = ask()
    return _answers[key]


_answers: dict[tuple, Any] = {}


def key_of(module: nn.Module, width: Any, expected: Any, without: str = "") -> tuple:
    """The answer's key: everything in which modules of a class may differ except parameters, and
    the attribute `without`."""
    own = vars(module).keys() - vars(nn.Module()).keys() - {without}
    settings = tuple((name, _setting(vars(module)[name])) for name in sorted(own))
    buffers = tuple((name, _setting(buffer)) for name, buffer in module.named_buffers())
    shapes = tuple((name, tuple(p.shape)) for name, p in module.named_parameters())
    formula = expected if isinstance(expected, NormFormula) else getattr(expected, "func", expected)
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
    for scale in (1, 1e-3):  # small values show which epsilon a norm has
        x = scale * draw((2, 3, width))
        try:
            with in_evaluation(module):
                found = functional_call(module, parameters, (x,))
                wanted = expected(x, parameters)
        except Exception:
            return False
        if not isinstance(found, torch.Tensor) or found.shape != wanted.shape:
            return False
        if not (found - wanted).norm() <= 1e-4 * wanted.norm():
            return False
    return True


@contextlib.contextmanager
def in_evaluation(module: nn.Module) -> Iterator[None]:
    modes = [(each, each.training) for each in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            yield
    finally:
        for each, training in modes:
            each.training = training


@contextlib.contextmanager
def on_any_device(block: Any) -> Iterator[None]:
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
