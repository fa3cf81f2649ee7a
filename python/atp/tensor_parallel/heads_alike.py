"""Whether an attention block of another library computes for some of its heads what it computes
for these heads among all of them. Then a rank can run it on its own heads.

The block runs on random numbers, once with all heads and once with a share of them, which is given
the share's part of each parameter. What reaches its last layer must be the same.
"""

import copy
import functools
import inspect
import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from atp.tensor_parallel.head_layout import GROUP, HEAD, KV, HeadLayout
from atp.tensor_parallel.likeness import in_evaluation, is_conv1d, key_of, on_any_device, once

__all__ = ["COUNTS", "set_counts", "why_not_apart"]

BATCH, TOKENS, HIDDEN = 2, 3, 8


COUNTS = {
    "num_heads": HEAD,
    "num_attention_heads": HEAD,
    "n_heads": HEAD,
    "n_head": HEAD,
    "num_key_value_heads": KV,
    "num_kv_heads": KV,
    "kv_heads": KV,
    "num_key_value_groups": GROUP,
}
"""Attributes that count heads, of a block or in its config."""

_WIDTHS = ("split_size",)
_WIDTHS_OF_ALL = ("hidden_size", "embed_dim")


def set_counts(block: Any, layout: HeadLayout, shares: int) -> None:
    """Makes a copy of a block one of this many equal shares of its heads."""
    heads, kv = layout.counts.heads // shares, max(1, layout.counts.kv // shares)
    numbers = {HEAD: heads, KV: kv, GROUP: heads // kv}
    here = {name: numbers[kind] for name, kind in COUNTS.items()}
    width = layout.core.size // shares
    here |= dict.fromkeys(_WIDTHS, width)
    if layout.in_config:
        here |= {w: width for w in _WIDTHS_OF_ALL if vars(block).get(w) == layout.core.size}
        config = getattr(block, "config", None)
        if config is not None:
            block.config = copy.copy(config)
            known = vars(block.config)
            known.update({k: v for k, v in here.items() if k in COUNTS and k in known})
    for name, value in here.items():
        if name in vars(block):
            setattr(block, name, value)


def why_not_apart(block: nn.Module, layout: HeadLayout, output: str) -> str | None:
    """Why the block cannot run on some of its heads; None if it can."""
    key = (*key_of(block, HIDDEN, why_not_apart), repr(layout), output)
    return once(key, lambda: _Probe(block, layout, output).why_not())


class _Probe:
    def __init__(self, block: nn.Module, layout: HeadLayout, output: str):
        self._layout, self._output, self._seen = layout, output, []
        generator = torch.Generator().manual_seed(0)
        self._draw = functools.partial(
            torch.randn, generator=generator, device="cpu", dtype=torch.float32
        )
        self._block = self._prepared(block)

    def _prepared(self, block: nn.Module) -> nn.Module:
        """A copy whose layers take any width. Norms over all heads need sums of all ranks, so here
        they only multiply."""
        own: Any = copy.copy(block)
        own._modules = dict(block._modules)
        for name in self._layout.inputs:
            own._modules[name] = _Layer(block._modules[name], None)
        own._modules[self._output] = _Layer(block._modules[self._output], self._seen)
        for name in self._layout.over_heads:
            own._modules[name] = _Scale(block._modules[name])
        return own

    def why_not(self) -> str | None:
        with in_evaluation(self._block), on_any_device(self._block):
            parameters = {n: self._parameter(n, p) for n, p in self._block.named_parameters()}
            found, error = None, None
            for arguments in self._arguments():
                try:
                    found = self._core(self._block, parameters, arguments)
                    break
                except Exception as wrong:
                    error = error or wrong
            if found is None:
                return f"it does not run on random numbers ({type(error).__name__}: {error})"
            return self._compare(found, parameters, arguments)

    def _compare(self, whole: torch.Tensor, parameters: Any, arguments: Any) -> str | None:
        if whole.shape[-1] != self._layout.core.size:
            return f"its {self._output} gets {whole.shape[-1]} values"
        heads, numbers = self._layout.counts.heads, self._numbers_of_shares()
        if heads > 1 and not numbers:
            return "its heads cannot be shared"
        for shares in numbers:
            for share in sorted({0, shares // 2, shares - 1}):
                wanted = whole.unflatten(-1, (shares, -1))[..., share, :]
                try:
                    found = self._of_share(parameters, arguments, share, shares)
                except Exception as wrong:
                    return (
                        f"it does not run with {heads // shares} of its {heads} heads "
                        f"({type(wrong).__name__}: {wrong})"
                    )
                if found.shape != wanted.shape or not torch.allclose(found, wanted, 1e-3, 1e-4):
                    return (
                        f"with {heads // shares} of its {heads} heads it does not compute for "
                        "these what it computes with all"
                    )
        return None

    def _numbers_of_shares(self) -> list[int]:
        heads, kv = self._layout.counts.heads, self._layout.counts.kv
        most = kv if self._layout.has_groups() else heads
        return [
            n
            for n in range(2, most + 1)
            if heads % n == 0 and (kv % n == 0 or n % kv == 0) and (n in (2, 3, kv) or n == most)
        ]

    def _of_share(self, parameters: Any, arguments: Any, share: int, shares: int) -> torch.Tensor:
        block = copy.copy(self._block)
        set_counts(block, self._layout, shares)
        own = {name: self._taken(name, p, share, shares) for name, p in parameters.items()}
        return self._core(block, own, arguments)

    def _taken(self, name: str, whole: torch.Tensor, share: int, shares: int) -> torch.Tensor:
        layer, _, leaf = name.rpartition(".")
        if layer in self._layout.inputs:
            axis = -1 if leaf == "weight" and self._is_transposed(layer) else 0
            sections = self._layout.inputs[layer]
        elif layer == self._output:
            if leaf == "bias":
                return whole
            axis, sections = (0 if self._is_transposed(layer) else -1), (self._layout.core,)
        else:
            section = self._layout.own[name]
            if section is None:
                return whole
            axis, sections = 0, (section,)
        moved = whole.movedim(axis, 0)
        return self._layout.take(moved, sections, share, shares).movedim(0, axis)

    def _is_transposed(self, layer: str) -> bool:
        return self._block._modules[layer].transposed

    def _parameter(self, name: str, parameter: torch.Tensor) -> torch.Tensor:
        """Random values; of layers on the hidden size, which is made smaller."""
        shape = list(parameter.shape)
        layer, _, leaf = name.rpartition(".")
        if layer in self._layout.inputs or layer == self._output:
            is_last = layer == self._output
            if leaf == "bias":
                shape = [HIDDEN] if is_last else shape
            else:
                shape[0 if is_last != self._is_transposed(layer) else 1] = HIDDEN
        return 0.5 * self._draw(shape)

    def _core(self, block: nn.Module, parameters: Any, arguments: dict) -> torch.Tensor:
        """What reaches the last layer."""
        self._seen.clear()
        functional_call(block, parameters, (), arguments)
        (found,) = self._seen
        return found

    def _arguments(self) -> Iterator[dict[str, Any]]:
        """Arguments for the block, by the names that the library gives them."""
        known = inspect.signature(self._block.forward).parameters
        positions = torch.arange(TOKENS).expand(BATCH, -1)
        common = {
            "hidden_states": self._draw((BATCH, TOKENS, HIDDEN)),
            "attention_mask": self._draw((BATCH, 1, TOKENS, TOKENS)),
            "position_ids": positions,
            "cache_position": positions[0],
            "alibi": None,
            "layer_past": None,
            "past_key_values": None,
        }
        first = next(iter(known), None)
        if first is not None and first not in common:
            common[first] = common["hidden_states"]
        for angles, masked in itertools.product(self._angles(), (True, False)):
            given = {key: value for key, value in common.items() if key in known}
            if "position_embeddings" in known:
                given["position_embeddings"] = angles
            if not masked and "attention_mask" in given:
                given["attention_mask"] = None
            yield given

    def _angles(self) -> list[Any]:
        """Cosines and sines for all of a head's values, or for some of them."""
        width = self._layout.inputs_width()
        own = getattr(self._block, "rotary_ndims", None)
        widths = [own] if isinstance(own, int) else []
        widths += [width, width // 2, width // 4]
        shape = (BATCH, TOKENS)
        pairs: list[Any] = [(self._draw((*shape, w)), self._draw((*shape, w))) for w in widths]
        as_complex = torch.view_as_complex(self._draw((*shape, max(1, width // 2), 2)))
        return [*pairs, as_complex]


class _Layer(nn.Module):
    """A linear layer of any width, which notes what it gets."""

    def __init__(self, layer: Any, seen: list | None):
        super().__init__()
        self.transposed, self._seen = is_conv1d(layer), seen
        self.weight = layer.weight
        self.register_parameter("bias", layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._seen is not None:
            self._seen.append(x)
        weight = self.weight.mT if self.transposed else self.weight
        return nn.functional.linear(x, weight, self.bias)


class _Scale(nn.Module):
    def __init__(self, norm: nn.Module):
        super().__init__()
        self.weight = norm.weight
        self.register_parameter("bias", getattr(norm, "bias", None))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight
