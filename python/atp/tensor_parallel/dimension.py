"""One dimension of the mesh as a rank sees it: its group, and the collectives that run on it."""

import collections
import dataclasses
from typing import Any

import torch
import torch.distributed as dist

__all__ = ["Dimension", "Flight", "Traffic"]


@dataclasses.dataclass
class Traffic:
    """What was asked of a dimension: calls, and bytes of a rank's whole tensor (of which, in a
    reduce-scatter or an all-gather, a rank gets or has a part only), as the planner counts."""

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
    """A collective on its way."""

    def __init__(self, result: torch.Tensor, work: Any = None):
        self._result = result
        self._work = work

    def land(self) -> torch.Tensor:
        """Waits for the end, and returns the result."""
        if self._work is not None:
            self._work.wait()
            self._work = None
        return self._result


class Dimension:
    """The group of this rank on one dimension, and where in it the rank is.

    number: 1 or 2, as in the paper (§3.2); 0 for the data-parallel replicas.
    size, index: how many ranks the group has, and which of them this is.
    algorithm: "gloo", "ring" or "innetwork".
    fused: reduce-scatter where only a slice of a sum is used. A ring moves half as much then; for
        Gloo and the switches it is a sum all the same.
    traffic: what was asked of it so far.
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

    def __repr__(self) -> str:
        return f"Dimension({self.number}: {self.index} of {self.size}, {self.algorithm})"

    def all_reduce(self, tensor: torch.Tensor, op=dist.ReduceOp.SUM) -> Flight:
        """Sums `tensor`, which must be contiguous, in place."""
        if self.size == 1:
            return Flight(tensor)
        self.traffic.add("all_reduce", tensor)
        return Flight(tensor, dist.all_reduce(tensor, op=op, group=self.group, async_op=True))

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
        self.traffic.add("reduce_scatter", stacked)
        mine = torch.empty_like(stacked[0])
        work = dist.reduce_scatter_single(
            mine.view(-1), stacked.view(-1), group=self.group, async_op=True
        )
        return Flight(mine, work)
