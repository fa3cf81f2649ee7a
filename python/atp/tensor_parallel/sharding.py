"""Which piece of a parameter a rank holds (paper §3.1), and how pieces form the parameter."""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakSet

import torch
from torch import nn
from torch.distributed.tensor import DTensor

__all__ = [
    "Cut",
    "Part",
    "adopt",
    "copies_in",
    "cut_of",
    "cuts_of",
    "holders",
    "is_cut_further",
    "local",
    "note_copied_holders",
    "piece",
]


@dataclasses.dataclass(frozen=True)
class Part:
    """A section of a parameter's axis that is split separately into `pieces` equal pieces; if they
    cannot be equal, the last one is shorter, as in a DTensor.

    With fewer pieces than the d1 rows of the mesh, consecutive rows hold copies: key-value heads,
    if there are fewer of them than rows.
    """

    size: int
    pieces: int

    def piece(self, row: int, rows: int) -> int:
        return row * self.pieces // rows

    def of(self, row: int, rows: int) -> tuple[int, int]:
        """The start and the length of the row's piece."""
        longest = -(-self.size // self.pieces)
        begin = min(self.piece(row, rows) * longest, self.size)
        return begin, min(longest, self.size - begin)


@dataclasses.dataclass(frozen=True)
class Cut:
    """How a parameter is split: over dimension 1 along `axis1`, over dimension 2 along `axis2`.

    None: not split there, all ranks of that dimension hold copies. `parts` make up axis1; empty:
    it is one part. If both axes are the same, its parts are split over all ranks, row by row.
    """

    axis1: int | None = None
    axis2: int | None = None
    parts: tuple[Part, ...] = ()

    @property
    def by_ranks(self) -> bool:
        """Whether one axis is split over all ranks."""
        return self.axis1 is not None and self.axis1 == self.axis2

    def take(self, full: torch.Tensor, shape: tuple[int, int], row: int, column: int):
        """The piece of the rank in this row and column of a mesh of this shape: view or copy."""
        piece = full
        if self.by_ranks:
            rank, ranks = row * shape[1] + column, shape[0] * shape[1]
            return self._take_rows(piece, self._parts(full.shape, ranks), rank, ranks)
        if self.axis2 is not None:
            width = full.shape[self.axis2] // shape[1]
            piece = piece.narrow(self.axis2, column * width, width)
        if self.axis1 is not None:
            piece = self._take_rows(piece, self._parts(full.shape, shape[0]), row, shape[0])
        return piece

    def _take_rows(self, full: torch.Tensor, parts: Sequence[Part], row: int, rows: int):
        begin, taken = 0, []
        for part in parts:
            start, width = part.of(row, rows)
            taken.append(full.narrow(self.axis1, begin + start, width))
            begin += part.size
        return taken[0] if len(taken) == 1 else torch.cat(taken, self.axis1)

    def assemble(
        self,
        full: torch.Tensor,
        shape: tuple[int, int],
        piece_of: Callable[[int, int], torch.Tensor],
    ) -> torch.Tensor:
        """Fills `full` with the pieces of a mesh of this shape, got from piece_of(row, column)."""
        rows = range(shape[0]) if self.axis1 is not None else range(1)
        columns = range(shape[1]) if self.axis2 is not None else range(1)
        for row in rows:
            for column in columns:
                self._put(full, shape, row, column, piece_of(row, column))
        return full

    def _put(self, full, shape, row, column, piece) -> None:
        into, rows = full, shape[0]
        if self.by_ranks:
            row, rows = row * shape[1] + column, rows * shape[1]
        elif self.axis2 is not None:
            width = full.shape[self.axis2] // shape[1]
            into = into.narrow(self.axis2, column * width, width)
        if self.axis1 is None:
            into.copy_(piece)
            return
        begin = taken = 0
        for part in self._parts(full.shape, rows):
            start, width = part.of(row, rows)
            from_piece = piece.narrow(self.axis1, taken, width)
            into.narrow(self.axis1, begin + start, width).copy_(from_piece)
            begin, taken = begin + part.size, taken + width

    def _parts(self, shape: Sequence[int], rows: int) -> Sequence[Part]:
        return self.parts or (Part(shape[self.axis1], rows),)

    def length_of_row(self, full: Sequence[int], rows: int, row: int) -> int:
        """The length of a row's piece along axis1."""
        if self.by_ranks:  # all pieces are equal
            return sum(part.size // part.pieces for part in self.parts)
        return sum(part.of(row, rows)[1] for part in self._parts(full, rows))

    def full_shape(self, piece: Sequence[int], shape: tuple[int, int]) -> tuple[int, ...]:
        """The parameter's shape, from a piece's shape."""
        full = list(piece)
        if self.axis1 is not None:
            parts = sum(part.size for part in self.parts)
            full[self.axis1] = parts or full[self.axis1] * shape[0]
        if self.axis2 is not None and not self.by_ranks:
            full[self.axis2] *= shape[1]
        return tuple(full)

    def copies(self, shape: tuple[int, int]) -> int:
        """How many ranks hold each element, if it is the same number for all."""
        return (shape[0] if self.axis1 is None else 1) * (shape[1] if self.axis2 is None else 1)


def adopt(module: nn.Module, name: str, parameter: nn.Parameter | None, cut: Cut) -> None:
    """Gives a module a parameter, and notes that it is a piece.

    The module keeps the note, as parameters may be replaced: torch.nn.utils.parametrize, FSDP and
    deepcopy do so.
    """
    setattr(module, name, parameter)
    module.__dict__.setdefault("atp_cuts", {})[name] = cut
    _holders.add(module)


_holders: WeakSet[nn.Module] = WeakSet()


def holders() -> list[nn.Module]:
    """All modules that have pieces."""
    return list(_holders)


def note_copied_holders(model: nn.Module) -> None:
    """A deep copy of a module does not call adopt()."""
    _holders.update(module for module in model.modules() if "atp_cuts" in vars(module))


def copies_in(cut: Cut, tensor: torch.Tensor, mesh: Any) -> Iterator[tuple[torch.Tensor, int]]:
    """The parts of a rank's piece, and the number of ranks that hold each."""
    rows, number = mesh.first.size, mesh.row
    if cut.by_ranks:
        rows, number = rows * mesh.second.size, number * mesh.second.size + mesh.column
    copies, begin = cut.copies(mesh.shape), 0
    for part in cut.parts:
        width = part.of(number, rows)[1]
        yield tensor.narrow(cut.axis1, begin, width), copies * rows // part.pieces
        begin += width
    if not cut.parts:
        yield tensor, copies


def piece(module: nn.Module, name: str) -> torch.Tensor | None:
    """A parameter of a module as its forward pass needs it: this rank's piece, if there is one.

    Raises:
        ValueError: only a shard of it is here, because FSDP gathers it for another module.
    """
    parameter = getattr(module, name)
    if is_cut_further(parameter):
        raise ValueError(
            f"{getattr(module, 'site', type(module).__name__)}.{name}: fully_shard() has sharded "
            "this parameter, and gathers it only when forward() is called; pass fully_shard() "
            "whole blocks of a model of transformers, or an atp Transformer as a whole"
        )
    return local(parameter)


def is_cut_further(parameter: torch.Tensor) -> bool:
    """Whether fully_shard() has also sharded a DTensor over the replicas."""
    return isinstance(parameter, DTensor) and parameter.device_mesh.ndim != 2


def local(tensor: Any) -> Any:
    """This rank's piece of a DTensor; any other tensor is already a piece."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def cut_of(module: nn.Module, name: str) -> Cut:
    """How a module's parameter is split."""
    return module.__dict__["atp_cuts"][name]


def cuts_of(model: nn.Module) -> dict[str, Cut]:
    """How each tensor of a model's state is split; not at all if the model is not parallelized.

    Raises:
        ValueError: parallelize() did not make a parameter, so it is unknown how it is split.
    """
    if not hasattr(model, "atp_mesh"):
        return dict.fromkeys(model.state_dict(keep_vars=True), Cut())
    return {name: _cut_of(model, name, t) for name, t in model.state_dict(keep_vars=True).items()}


def _cut_of(model: nn.Module, name: str, tensor: torch.Tensor) -> Cut:
    owner, _, leaf = name.rpartition(".")
    known = model.get_submodule(owner).__dict__.get("atp_cuts", {})
    if leaf in known:
        return known[leaf]
    if isinstance(tensor, nn.Parameter):
        raise ValueError(
            f"{name} is a parameter that parallelize() has not made, so it is unknown which piece "
            "of it this rank holds. Was a module replaced or parametrized afterwards?"
        )
    return Cut()  # a buffer, which every rank holds whole
