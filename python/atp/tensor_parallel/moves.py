"""The operations of a collective on a tensor: sum it, gather it, keep a slice of it.

A slice is one rank's part of a tensor that all ranks of a dimension hold: some of the attention
heads, or some of the sequences of the batch (paper §3.2.1, scatter and gather around the attention
core), or some of the tokens of each sequence (sequence parallelism).
"""

import dataclasses
from collections.abc import Callable
from typing import ClassVar, Protocol

import torch

from atp.tensor_parallel.dimension import Dimension, Flight

__all__ = [
    "AllReduce",
    "Gather",
    "Heads",
    "Keep",
    "Move",
    "ReduceSlice",
    "Sequences",
    "Slice",
    "Slicing",
    "Tokens",
]


class Slicing(Protocol):
    """How `count` ranks share a tensor: `split` stacks the slices on a new first axis."""

    count: int

    def split(self, whole: torch.Tensor) -> torch.Tensor: ...
    def join(self, stacked: torch.Tensor) -> torch.Tensor: ...
    def bias(self, bias: torch.Tensor, index: int) -> torch.Tensor: ...


@dataclasses.dataclass(frozen=True)
class Heads:
    """The last axis holds parts (queries, keys, values), and each rank gets its share of each.

    copies: how many ranks get the same share of a part: key-value heads that several query heads
    use. Joining then adds the copies, which are gradients.
    """

    count: int
    widths: tuple[int, ...]
    copies: tuple[int, ...]

    def shares(self) -> list[int]:
        """The widths of a slice's parts."""
        parts = zip(self.widths, self.copies, strict=True)
        return [width * copies // self.count for width, copies in parts]

    def split(self, whole: torch.Tensor) -> torch.Tensor:
        parts = zip(whole.split(self.widths, -1), self.copies, strict=True)
        each = [_repeat(part.unflatten(-1, (self.count // m, -1)), m) for part, m in parts]
        return torch.cat(each, -1).movedim(-2, 0)

    def join(self, stacked: torch.Tensor) -> torch.Tensor:
        parts = zip(stacked.movedim(0, -2).split(self.shares(), -1), self.copies, strict=True)
        sums = [part.unflatten(-2, (-1, m)).sum(-2) if m > 1 else part for part, m in parts]
        return torch.cat([part.flatten(-2) for part in sums], -1)

    def bias(self, bias: torch.Tensor, index: int) -> torch.Tensor:
        return self.split(bias)[index]


def _repeat(shares: torch.Tensor, copies: int) -> torch.Tensor:
    return shares.repeat_interleave(copies, -2) if copies > 1 else shares


@dataclasses.dataclass(frozen=True)
class Sequences:
    """The first axis is the batch, and each rank gets consecutive sequences of it."""

    count: int

    def split(self, whole: torch.Tensor) -> torch.Tensor:
        return whole.unflatten(0, (self.count, -1))

    def join(self, stacked: torch.Tensor) -> torch.Tensor:
        return stacked.flatten(0, 1)

    def bias(self, bias: torch.Tensor, index: int) -> torch.Tensor:
        return bias


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The last axis but one is the sequence, and each rank gets consecutive tokens of it.

    padding: the number of tokens, all zero, that the slices have and the sequence does not.
    """

    count: int
    padding: int = 0

    def split(self, whole: torch.Tensor) -> torch.Tensor:
        if self.padding:
            whole = torch.nn.functional.pad(whole, (0, 0, 0, self.padding))
        return whole.unflatten(-2, (self.count, -1)).movedim(-3, 0)

    def join(self, stacked: torch.Tensor) -> torch.Tensor:
        padded = stacked.movedim(0, -3).flatten(-3, -2)
        if not self.padding:
            return padded
        return padded.narrow(-2, 0, padded.shape[-2] - self.padding).contiguous()

    def bias(self, bias: torch.Tensor, index: int) -> torch.Tensor:
        return bias


class Move(Protocol):
    """Starts on `tensor`, which it may overwrite; `land` returns the result later.

    sums: whether the result contains a sum over several ranks.
    """

    @property
    def sums(self) -> bool: ...
    def start(self, tensor: torch.Tensor) -> "Landing": ...


class Landing:
    """A flight, and a function to apply to its result."""

    def __init__(self, flight: Flight, then: Callable[[torch.Tensor], torch.Tensor] | None = None):
        self._flight = flight
        self._then = then

    def land(self) -> torch.Tensor:
        result = self._flight.land()
        return self._then(result) if self._then else result


class Keep:
    """Leaves the tensor where it is."""

    sums = False

    def start(self, tensor: torch.Tensor) -> Landing:
        return Landing(Flight(tensor))


@dataclasses.dataclass(frozen=True)
class AllReduce:
    """The sum over a dimension, on all of its ranks."""

    dimension: Dimension

    @property
    def sums(self) -> bool:
        return self.dimension.size > 1

    def start(self, tensor: torch.Tensor) -> Landing:
        return Landing(self.dimension.all_reduce(tensor.contiguous()))


@dataclasses.dataclass(frozen=True)
class ReduceSlice:
    """This rank's slice of the sum: a reduce-scatter, or an all-reduce that keeps a slice."""

    dimension: Dimension
    slicing: Slicing

    @property
    def sums(self) -> bool:
        return self.dimension.size > 1

    def start(self, tensor: torch.Tensor) -> Landing:
        if self.dimension.fused:
            stacked = self.slicing.split(tensor).contiguous()
            return Landing(self.dimension.reduce_scatter(stacked))
        flight = self.dimension.all_reduce(tensor.contiguous())
        return Landing(flight, self._own_slice)

    def _own_slice(self, whole: torch.Tensor) -> torch.Tensor:
        return self.slicing.split(whole)[self.dimension.index].contiguous()


@dataclasses.dataclass(frozen=True)
class Slice:
    """This rank's slice of a tensor that all ranks hold, in separate memory; nothing is sent."""

    dimension: Dimension
    slicing: Slicing
    sums: ClassVar[bool] = False

    def start(self, tensor: torch.Tensor) -> Landing:
        own = self.slicing.split(tensor)[self.dimension.index]
        return Landing(Flight(own.clone(memory_format=torch.contiguous_format)))


@dataclasses.dataclass(frozen=True)
class Gather:
    """All ranks' slices, concatenated."""

    dimension: Dimension
    slicing: Slicing
    sums: ClassVar[bool] = False

    def start(self, tensor: torch.Tensor) -> Landing:
        return Landing(self.dimension.all_gather(tensor), self.slicing.join)
