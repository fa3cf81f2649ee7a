"""Checks that a block which keeps its own forward pass is right on the heads of one rank.

Its core may look at all heads together: a norm over all queries, slopes by the number of a head.
On a rank's heads that would be wrong without an error. So before such a block is first trusted, it
runs on random queries, keys and values with its real masks and positions: the whole block on those
of all heads, and beside it the rank's block on its share. Both must agree, forward and backward.
"""

import copy
import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.dropout import ATPDropout
from atp.tensor_parallel.exchange import everyone_says
from atp.tensor_parallel.likeness import key_of
from atp.tensor_parallel.mesh import Mesh

__all__ = ["Probe", "Share", "copy_of"]

# Enough for every kind of mask; with more, the scores of all heads may not fit into memory.
_SEQUENCES, _TOKENS = 2, 128
_TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}
_TOLERANCE_OF_HALF = 5e-2
# It differs between blocks that compute the same.
_NUMBER_OF_A_BLOCK = "layer_idx"

_passed: set[tuple] = set()


@dataclasses.dataclass(frozen=True)
class Share:
    """This rank's share of a block's heads.

    widths, own_widths: of the queries, keys and values of all heads, and of the rank's.
    width: of a head.
    take: its share of the queries, keys and values of all heads, side by side.
    take_output: its share of what the core makes of them.
    """

    widths: tuple[int, ...]
    own_widths: tuple[int, ...]
    width: int
    take: Callable[[torch.Tensor], torch.Tensor]
    take_output: Callable[[torch.Tensor], torch.Tensor]


def copy_of(module: nn.Module) -> Any:
    """A copy with the same parameters and children; replacing them leaves the original alone."""
    copied = copy.copy(module)
    for name, value in vars(module).items():
        if isinstance(value, dict):
            vars(copied)[name] = value.copy()
    return copied


class Probe:
    """The check of one kept block.

    Args:
        block: as it was before parallelize(); it is left unchanged.
        layers: the names of its layers, the last one last.
    """

    def __init__(
        self, block: nn.Module, layers: Sequence[str], share: Share, mesh: Mesh, site: str
    ):
        self._key = key_of(block, share.widths, mesh.shape, _NUMBER_OF_A_BLOCK)
        self._whole = _Alone(block, layers)
        self._layers, self._share, self._mesh, self._site = tuple(layers), share, mesh, site
        self._has_warned = False

    def check(self, kept: nn.Module, inputs: tuple, named: Mapping[str, Any]) -> None:
        """Once for blocks of a kind, in training and in evaluation; a collective of the replica.

        Args:
            kept: the block on this rank, about to run on these arguments.

        Raises:
            ValueError: on some rank the block's own code is wrong there; raised on every rank.
        """
        key = (self._key, self._mesh.row, self._mesh.column, kept.training)
        if self._mesh.shape == (1, 1) or key in _passed:
            return
        said = everyone_says(self._mesh, self._verdict(kept, inputs, named))
        kind = type(kept).__name__
        for rank, text in said.items():
            if text.startswith("wrong: "):
                raise ValueError(
                    f"{self._site}: {kind} cannot be split: on the heads of rank {rank} its own "
                    f"code {text.removeprefix('wrong: ')}; it must treat all heads alike, so give "
                    "it a role with such a core, plan={name: role}"
                )
        failed = [text for text in said.values() if text]
        if not failed:
            _passed.add(key)
        elif not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{self._site}: could not check that {kind} treats its heads alike: {failed[0]}",
                stacklevel=2,
            )

    def _verdict(self, kept: nn.Module, inputs: tuple, named: Mapping[str, Any]) -> str:
        hidden = next((x for x in (*inputs, *named.values()) if isinstance(x, torch.Tensor)), None)
        if hidden is None or hidden.dim() != 3:
            return "its first argument is not [batch, tokens, values]"
        sizes, failure = tuple(hidden.shape[:2]), ""
        for most in ((_SEQUENCES, _TOKENS), sizes):
            small = _Shrink(sizes, most)
            with torch.inference_mode(False), torch.enable_grad():
                arguments = small.of(inputs), small.of(dict(named))
                values = self._random(small.of(hidden), kept)
                try:
                    made = self._whole.run(values, self._share.widths, arguments)
                except Exception as error:  # of a block that cannot run alone
                    failure = _described(error)
                    continue
                return self._compare(values, made, _Alone(kept, self._layers), arguments)
        return failure

    def _random(self, hidden: torch.Tensor, kept: nn.Module) -> torch.Tensor:
        """Queries, keys and values of all heads, of very different sizes, so that a norm over all
        heads is far from one over some."""
        dtype, device = next(kept.parameters()).dtype, hidden.device
        if torch.is_autocast_enabled(device.type):
            dtype = torch.get_autocast_dtype(device.type)
        width, draw = self._share.width, torch.Generator().manual_seed(0)
        heads = sum(self._share.widths) // width
        values = torch.randn(*hidden.shape[:-1], heads, width, generator=draw)
        values *= 4 ** (2 * torch.rand(heads, 1, generator=draw) - 1)
        return values.flatten(-2).to(device, dtype).requires_grad_()

    def _compare(
        self, values: torch.Tensor, made: torch.Tensor, part: "_Alone", arguments: tuple
    ) -> str:
        share = self._share
        of_rank = share.take(values)
        own = of_rank.detach().requires_grad_()
        try:
            found = part.run(own, share.own_widths, arguments)
        except Exception as error:
            return f"wrong: raises {_described(error)}"
        expected = share.take_output(made)
        if found.shape != expected.shape or _differ(found, expected):
            return "wrong: computes something else than beside the other heads"
        draw = torch.Generator().manual_seed(1)
        gradient = torch.randn(made.shape, generator=draw).to(made)
        of_result = share.take_output(gradient)
        (of_own,) = torch.autograd.grad(found, own, of_result)
        (of_all,) = torch.autograd.grad(made, values, gradient, retain_graph=True)
        (of_values,) = torch.autograd.grad(expected, values, of_result)
        (placed,) = torch.autograd.grad(of_rank, values, of_own)
        queries = share.own_widths[0]  # keys and values get gradients from other ranks' queries
        beside = share.take(of_all)[..., :queries]
        if _differ(placed, of_values) or _differ(of_own[..., :queries], beside):
            return "wrong: computes other gradients than beside the other heads"
        return ""


class _Layer(nn.Module):
    """Gives what it holds, instead of a product."""

    def __init__(self, held: torch.Tensor):
        super().__init__()
        self.held = held
        self.weight = held.new_empty(0)  # some blocks ask for its type

    def forward(self, _x: torch.Tensor) -> torch.Tensor:
        return self.held


class _Last(_Layer):
    """Holds what it is given."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.held = x
        return x


class _Alone:
    """A block without its layers: what is around them runs on given values, without dropout."""

    def __init__(self, block: nn.Module, layers: Sequence[str]):
        self._block, self._layers = copy_of(block), layers
        self._block.training = False
        for name, child in self._block._modules.items():
            if name in layers:
                self._block._modules[name] = None  # the memory is not kept
            elif isinstance(child, (nn.Dropout, ATPDropout)):
                self._block._modules[name] = nn.Identity()

    def run(self, values: torch.Tensor, widths: Sequence[int], arguments: tuple) -> torch.Tensor:
        """The input of the last layer."""
        *first, last = self._layers
        parts = [values] if len(first) == 1 else values.split(tuple(widths), -1)
        children = self._block._modules
        children |= {name: _Layer(part) for name, part in zip(first, parts, strict=True)}
        made = children[last] = _Last(values.new_empty(0))
        try:
            self._block.forward(*arguments[0], **arguments[1])
        finally:
            children.update(dict.fromkeys(self._layers))
        return made.held


@dataclasses.dataclass(frozen=True)
class _Shrink:
    """Fewer sequences and tokens in a block's arguments, and no cache, which the run would fill.

    sizes, most: the sequences and tokens that there are, and how many to keep.
    """

    sizes: tuple[int, int]
    most: tuple[int, int]

    def of(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return self._tensor(value)
        if type(value) in (tuple, list):
            return type(value)(self.of(each) for each in value)
        if type(value) is dict:
            return {name: self.of(each) for name, each in value.items()}
        return None if hasattr(value, "update") else value

    def _tensor(self, value: torch.Tensor) -> torch.Tensor:
        sequences, tokens = self.sizes
        for axis, length in enumerate(value.shape):
            if length == tokens:
                value = value.narrow(axis, 0, min(tokens, self.most[1]))
        if value.shape[:1] == (sequences,) and sequences != tokens:
            value = value.narrow(0, 0, min(sequences, self.most[0]))
        return value.detach().clone()


def _differ(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if not torch.equal(found.isnan(), expected.isnan()):
        return True
    tolerance = _TOLERANCE.get(found.dtype, _TOLERANCE_OF_HALF)
    found, expected = (x.detach().double().nan_to_num() for x in (found, expected))
    return bool((found - expected).norm() > tolerance * expected.norm())


def _described(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0][:200]}"
