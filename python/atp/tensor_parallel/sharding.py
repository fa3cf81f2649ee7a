"""Which piece of a parameter a rank holds (paper §3.1), and how pieces make the parameter."""

import dataclasses
from collections.abc import Callable, Sequence

import torch

__all__ = ["Cut", "Part", "cut_of", "set_cut"]


@dataclasses.dataclass(frozen=True)
class Part:
    """A run of a parameter's axis that is cut by itself, in `pieces` equal ones.

    Where pieces are fewer than the d1 rows of the mesh, consecutive rows hold copies: key-value
    heads of which there are fewer than rows.
    """

    size: int
    pieces: int

    def piece(self, row: int, rows: int) -> int:
        return row * self.pieces // rows

    def width(self) -> int:
        return self.size // self.pieces


@dataclasses.dataclass(frozen=True)
class Cut:
    """How a parameter is cut: over dimension 1 along `axis1`, over dimension 2 along `axis2`.

    None: not cut there, all ranks of that dimension hold copies. `parts` make up axis1; empty: it
    is one part.
    """

    axis1: int | None = None
    axis2: int | None = None
    parts: tuple[Part, ...] = ()

    def take(self, full: torch.Tensor, shape: tuple[int, int], row: int, column: int):
        """The piece of the rank in this row and column of a mesh of this shape; a view or new."""
        piece = full
        if self.axis2 is not None:
            width = full.shape[self.axis2] // shape[1]
            piece = piece.narrow(self.axis2, column * width, width)
        if self.axis1 is not None:
            piece = self._take_rows(piece, self._parts(full.shape, shape[0]), row, shape[0])
        return piece

    def _take_rows(self, full: torch.Tensor, parts: Sequence[Part], row: int, rows: int):
        begin, taken = 0, []
        for part in parts:
            start = begin + part.piece(row, rows) * part.width()
            taken.append(full.narrow(self.axis1, start, part.width()))
            begin += part.size
        return taken[0] if len(taken) == 1 else torch.cat(taken, self.axis1)

    def assemble(
        self,
        full: torch.Tensor,
        shape: tuple[int, int],
        piece_of: Callable[[int, int], torch.Tensor],
    ) -> torch.Tensor:
        """Fills `full` with the pieces of a mesh of this shape, which piece_of(row, column) has."""
        rows = range(shape[0]) if self.axis1 is not None else range(1)
        columns = range(shape[1]) if self.axis2 is not None else range(1)
        for row in rows:
            for column in columns:
                self._put(full, shape, row, column, piece_of(row, column))
        return full

    def _put(self, full, shape, row, column, piece) -> None:
        into = full
        if self.axis2 is not None:
            width = full.shape[self.axis2] // shape[1]
            into = into.narrow(self.axis2, column * width, width)
        if self.axis1 is None:
            into.copy_(piece)
            return
        begin = taken = 0
        for part in self._parts(full.shape, shape[0]):
            start = begin + part.piece(row, shape[0]) * part.width()
            from_piece = piece.narrow(self.axis1, taken, part.width())
            into.narrow(self.axis1, start, part.width()).copy_(from_piece)
            begin, taken = begin + part.size, taken + part.width()

    def _parts(self, shape: Sequence[int], rows: int) -> Sequence[Part]:
        return self.parts or (Part(shape[self.axis1], rows),)

    def full_shape(self, piece: Sequence[int], shape: tuple[int, int]) -> tuple[int, ...]:
        """The parameter's shape, from that of a piece."""
        full = list(piece)
        if self.axis1 is not None:
            parts = sum(part.size for part in self.parts)
            full[self.axis1] = parts or full[self.axis1] * shape[0]
        if self.axis2 is not None:
            full[self.axis2] *= shape[1]
        return tuple(full)

    def copies(self, shape: tuple[int, int]) -> int:
        """How many ranks hold each element, where it is the same for all."""
        return (shape[0] if self.axis1 is None else 1) * (shape[1] if self.axis2 is None else 1)


def set_cut(parameter: torch.nn.Parameter, cut: Cut) -> torch.nn.Parameter:
    """Notes at a parameter that it is a piece."""
    parameter.atp_cut = cut
    return parameter


def cut_of(parameter: torch.Tensor) -> Cut:
    """How a parameter is cut; one that nobody has cut is held whole by every rank."""
    return getattr(parameter, "atp_cut", Cut())
