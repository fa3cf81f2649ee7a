"""The random numbers of dropout on a mesh.

Ranks that hold the same tensor must drop the same values of it, or their copies drift apart; ranks
that hold different pieces must not. So a mesh has its own seed, the same on all ranks whatever the
ranks' seeds, and each dropout draws from it by the place of its piece on the mesh.

While a model runs, torch's own generator has the same state on all ranks of a replica. A dropout
draws one number from it, and seeds its own generator with that number and its place. So torch's
activation checkpointing, which restores the generator, draws the same masks again.
"""

import contextlib
import hashlib
from collections.abc import Iterator
from typing import Any

import torch

__all__ = ["Randomness", "generators_of"]


class Randomness:
    """The random numbers of one rank of a mesh.

    seed: the mesh's.
    batches: the number of training batches run. A checkpoint needs only this and the seed.
    """

    def __init__(self, seed: int, replica: int, row: int, column: int):
        self.seed, self.batches = seed, 0
        self._replica, self._row, self._column = replica, row, column
        self._shared: list[torch.Generator] = []  # the state that all ranks share while a core runs

    def __deepcopy__(self, _memo: dict) -> "Randomness":
        return self  # it belongs to the mesh, not to a copy of a model

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Gives all ranks of a replica the same generator state; restores their own afterwards."""
        torchs = torch.default_generator
        before = torchs.get_state()
        torchs.manual_seed(_mixed(self.seed, self._replica, self.batches))
        self.batches += 1
        try:
            yield
        finally:
            torchs.set_state(before)

    def of_column(self, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """For [Replicate, Shard]: all ranks of a column of the mesh draw the same numbers."""
        return self._drawing(device, 2, self._column)

    def of_row(self, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """For [Shard, Replicate]: all ranks of a row of the mesh draw the same numbers."""
        return self._drawing(device, 1, self._row)

    def of_rank(self, device: torch.device) -> contextlib.AbstractContextManager[None]:
        """For tensors split over both dimensions: every rank draws different numbers."""
        return self._drawing(device, 0, self._row, self._column)

    @contextlib.contextmanager
    def _drawing(self, device: torch.device, *place: int) -> Iterator[None]:
        torchs = torch.default_generator
        shared = self._shared[-1] if self._shared else torch.Generator()
        if not self._shared:
            shared.set_state(torchs.get_state())
        number = int(torch.randint(2**62, (), generator=shared))
        generators = generators_of(device)
        before = [(generator, generator.get_state()) for generator in generators]
        for generator in generators:
            generator.manual_seed(_mixed(number, *place))
        self._shared.append(shared)
        try:
            yield
        finally:
            self._shared.pop()
            for generator, state in before:
                generator.set_state(state)
            if not self._shared:
                torchs.set_state(shared.get_state())


def generators_of(device: torch.device) -> set[torch.Generator]:
    """torch's generators of the CPU and of a device."""
    return {torch.default_generator, _generator_of(device)}


def _generator_of(device: torch.device) -> torch.Generator:
    if device.type == "cpu":
        return torch.default_generator
    module: Any = torch.get_device_module(device)
    index = module.current_device() if device.index is None else device.index
    return module.default_generators[index]


def _mixed(*numbers: int) -> int:
    digest = hashlib.blake2b(repr(numbers).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1
