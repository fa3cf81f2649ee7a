"""Feed-forward blocks of transformers: their layers are recognized by name, and what the block
computes by comparing it with the formula on random numbers."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.likeness import behaves_as, features_of, is_conv1d, is_linear
from atp.tensor_parallel.roles import FeedForwardRole

__all__ = ["PAIRS", "feed_forward_of"]

_GATED = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"), ("gate", "up", "down"))
_FUSED = (("gate_up_proj", "down_proj"), ("input_linear", "output_linear"))
PAIRS = (
    ("up_proj", "down_proj"),
    ("c_fc", "c_proj"),
    ("fc1", "fc2"),
    ("fc_in", "fc_out"),
    ("dense_h_to_4h", "dense_4h_to_h"),
    ("linear_1", "linear_2"),
)
"""Layers with an activation between them."""


class Gated:
    """act(gate) times up."""

    def __init__(self, act: Any):
        self._act = act

    def __call__(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return self._act(gate) * up


class GatedHalves(Gated):
    """The same of one tensor, whose first half is the gate, or the second."""

    def __init__(self, act: Any, first: bool):
        super().__init__(act)
        self._first = first

    def __call__(self, both: torch.Tensor) -> torch.Tensor:
        one, other = both.chunk(2, -1)
        return super().__call__(*((one, other) if self._first else (other, one)))


def feed_forward_of(name: str, module: Any, unknown: Any) -> FeedForwardRole | None:
    """The role of a feed-forward block, or None if it is none.

    Raises:
        ValueError: it is one, but not one of the known formulas.
    """
    children = dict(module.named_children())
    layers = next((each for each in (*_GATED, *_FUSED, *PAIRS) if children.keys() >= {*each}), None)
    if layers is None or (layers in PAIRS and not _is_only(children, layers)):
        return None
    if own := [*module._parameters, *module._buffers]:
        raise unknown(name, module, f"it has {', '.join(own)} of its own")
    for each in layers:
        if not is_linear(children[each]):
            raise unknown(f"{name}.{each}", children[each], "it is not a linear layer")
    dropouts = [each for each, child in children.items() if type(child) is nn.Dropout]
    others = [c for n, c in children.items() if n not in (*layers, *dropouts)]
    acts = [act for act in _callables(module, layers) if not _has_tensors(act)]
    if len(dropouts) > 1 or any(_has_tensors(other) for other in others):
        raise unknown(name, module, f"it consists of {', '.join(children)}")
    width = features_of(children[layers[-1]])[0]
    for between in _between(layers, acts):
        formula = functools.partial(_compute, _Layers(children, layers), between)
        if behaves_as(module, width, formula) and all(acts_on_each_value(a) for a in acts[:1]):
            dropout = dropouts[0] if dropouts else None
            halves = 2 if layers in _FUSED else 1
            return FeedForwardRole(layers[:-1], layers[-1], between, dropout, halves)
    raise unknown(name, module, "it does not compute what it appears to")


def _is_only(children: dict[str, nn.Module], layers: tuple[str, ...]) -> bool:
    """Whether a module has no other layers: a whole transformer layer may have two by this name."""
    others = [child for each, child in children.items() if each not in layers]
    return not any(_has_tensors(other) for other in others)


def _callables(module: Any, layers: tuple[str, ...]) -> list[Any]:
    """The activations that it may use."""
    own = {**vars(module), **dict(module.named_children())}
    found = [
        value
        for key, value in own.items()
        if callable(value) and key not in layers and not key.startswith("_")
        and type(value) is not nn.Dropout
    ]  # fmt: skip
    return found[:3] or [nn.functional.silu, nn.functional.gelu, nn.functional.relu]


def _between(layers: tuple[str, ...], acts: list[Any]) -> Iterator[Callable]:
    if layers in _GATED:
        yield from (Gated(act) for act in acts)
    elif layers in _FUSED:
        yield from (GatedHalves(a, first) for a, first in itertools.product(acts, (True, False)))
    else:
        yield from acts


def _has_tensors(module: Any) -> bool:
    return isinstance(module, nn.Module) and (
        any(True for _ in module.parameters()) or any(True for _ in module.buffers())
    )


class _Layers:
    """The layers' formulas, with the given parameters."""

    def __init__(self, children: dict[str, nn.Module], names: tuple[str, ...]):
        self.inputs, self.output = names[:-1], names[-1]
        self._transposed = {name: is_conv1d(children[name]) for name in names}

    def apply(self, name: str, x: torch.Tensor, parameters: dict) -> torch.Tensor:
        weight, bias = parameters[f"{name}.weight"], parameters.get(f"{name}.bias")
        return nn.functional.linear(x, weight.mT if self._transposed[name] else weight, bias)


def _compute(layers: _Layers, between: Any, x: torch.Tensor, parameters: dict):
    active = between(*(layers.apply(name, x, parameters) for name in layers.inputs))
    return layers.apply(layers.output, active, parameters)


def acts_on_each_value(act: Any) -> bool:
    """Whether it is element-wise: a row of the mesh has only some of a token's values."""
    x = torch.randn(2, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return torch.allclose(act(x), torch.cat([act(part) for part in x.split(16, -1)], -1))
