"""One dimension of the mesh as a rank sees it: its group, and the collectives that run on it."""

import collections
import dataclasses
from typing import Any

import torch
import torch.distributed as dist

from atp.tensor_parallel.precision import widened

__all__ = ["Dimension", "Flight", "Traffic"]


@dataclasses.dataclass
class Traffic:
    """The collectives requested on a dimension: calls, and bytes of a rank's whole tensor (a
    reduce-scatter returns only a part of it, an all-gather is given one), as the planner counts."""

    calls: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    bytes: collections.Counter = dataclasses.field(default_factory=collections.Counter)

    def add(self, operation: str, tensor: torch.Tensor) -> None:
        self.calls[operation] += 1
        self.bytes[operation] += tensor.numel() * tensor.element_size()

    def total(self) -> int:
        return sum(self.bytes.values())

    def clear(self) -> None:
        self.calls.clear()
        self.bytes.clear()


class Flight:
    """A collective in progress."""

    def __init__(
        self, result: torch.Tensor, work: Any = None, narrower: torch.Tensor | None = None
    ):
        self._result = result
        self._work = work
        self._narrower = narrower  # where the result goes, rounded

    def land(self) -> torch.Tensor:
        """Waits for the collective to finish, and returns the result."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        if self._narrower is not None:
            self._result, self._narrower = self._narrower.copy_(self._result), None
        return self._result


class Dimension:
    """This rank's group on one dimension, and the rank's place in it.

    number: 1 or 2, as in the paper (§3.2); 0 for the data-parallel replicas.
    size, index: the number of ranks in the group, and this rank's number among them.
    algorithm: "gloo", "ring" or "innetwork".
    fused: reduce-scatter where only a slice of a sum is used. A ring then moves half as much; Gloo
        and the switches still do a full sum.
    traffic: the collectives requested so far.
    """

    def __init__(
        self, number: int, group: dist.ProcessGroup, algorithm: str, fused: bool | None = None
    ):
        self.number = number
        self.group = group
        self.algorithm = algorithm
        self.size = dist.get_world_size(group)
        self.index = dist.get_rank(group)
        self.fused = algorithm == "ring" if fused is None else fused
        self.traffic = Traffic()

    def __deepcopy__(self, _memo: dict) -> "Dimension":
        return self  # a copy of a model runs on the same mesh

    def __repr__(self) -> str:
        return f"Dimension({self.number}: {self.index} of {self.size}, {self.algorithm})"

    def all_reduce(self, tensor: torch.Tensor, op=dist.ReduceOp.SUM) -> Flight:
        """Sums `tensor`, which must be contiguous, in place.

        Half precision is summed in float32 and rounded once: Gloo would round on every rank, and
        our ring sums only float32 and float64. The network has 32 bits for each value anyway.
        """
        if self.size == 1:
            return Flight(tensor)
        own = widened(tensor)
        self.traffic.add("all_reduce", own)
        work = dist.all_reduce(own, op=op, group=self.group, async_op=True)
        return Flight(own, work, None if own is tensor else tensor)

    def all_gather(self, tensor: torch.Tensor) -> Flight:
        """All ranks' `tensor`s, stacked on a new first axis."""
        whole = tensor.new_empty(self.size, *tensor.shape)
        if self.size == 1:
            return Flight(whole.copy_(tensor.unsqueeze(0)))
        self.traffic.add("all_gather", whole)
        work = dist.all_gather_single(
            whole.view(-1), tensor.contiguous().view(-1), group=self.group, async_op=True
        )
        return Flight(whole, work)

    def reduce_scatter(self, stacked: torch.Tensor) -> Flight:
        """The sum over all ranks of `stacked[index]`."""
        if self.size == 1:
            return Flight(stacked[0])
        own = widened(stacked)
        self.traffic.add("reduce_scatter", own)
        mine = torch.empty_like(own[0])
        work = dist.reduce_scatter_single(
            mine.view(-1), own.view(-1), group=self.group, async_op=True
        )
        return Flight(mine, work, None if own is stacked else torch.empty_like(stacked[0]))
