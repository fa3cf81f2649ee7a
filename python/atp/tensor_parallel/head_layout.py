"""Which values of an attention block's layers, norms and own parameters belong to which heads."""

import dataclasses
from collections.abc import Mapping, Sequence

import torch

from atp.tensor_parallel.attention import HeadCounts
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.moves import Heads
from atp.tensor_parallel.sharding import Cut, Part

__all__ = ["GROUP", "HEAD", "KV", "HeadLayout", "Section", "plain_layout"]

HEAD, KV, GROUP = "query head", "key-value head", "key-value head with its query heads"


@dataclasses.dataclass(frozen=True)
class Section:
    """`size` consecutive values, an equal number for each head of this kind, in their order."""

    size: int
    kind: str = HEAD


@dataclasses.dataclass(frozen=True)
class HeadLayout:
    """The sections of the outputs of a block's first layers, and of its small parameters.

    inputs: those of each layer by its name.
    core: the values that its last layer gets.
    own: those of the first axis of other parameters: norms of queries and keys, for example. None:
        the parameter is the same for all heads.
    over_heads: the names of norms over the values of all heads together.
    in_config: whether the block also reads counts of heads in its `config`, and widths that are
        those of all heads.
    """

    counts: HeadCounts
    inputs: Mapping[str, tuple[Section, ...]]
    core: Section
    own: Mapping[str, Section | None] = dataclasses.field(default_factory=dict)
    over_heads: frozenset[str] = frozenset()
    in_config: bool = False

    def number(self, kind: str) -> int:
        return self.counts.heads if kind == HEAD else self.counts.kv

    def has_groups(self) -> bool:
        return any(s.kind == GROUP for sections in self.inputs.values() for s in sections)

    def inputs_width(self) -> int:
        """The values of one query, as far as the layers' widths tell."""
        return self.counts.width

    def check(self, mesh: Mesh, site: str) -> None:
        """Raises ValueError if the ranks of the mesh cannot have equal shares of the heads."""
        self.counts.check(mesh, site)
        rows, columns = mesh.shape
        of_row = self.counts.on_row(rows)
        shares = of_row.heads % columns == 0 and (
            of_row.kv % columns == 0 or columns % of_row.kv == 0
        )
        if not shares:
            raise ValueError(
                f"{site}: d2 = {columns} does not divide the {of_row.heads} heads of a row "
                f"(with {of_row.kv} for keys and values); choose another mesh"
            )
        if self.has_groups() and self.counts.kv % (rows * columns):
            raise ValueError(
                f"{site}: one layer computes its queries, keys and values, one key-value head "
                f"after another, and {rows} * {columns} ranks cannot share {self.counts.kv} of "
                "these equally; choose another mesh"
            )

    def parts(self, layer: str, rows: int) -> tuple[Part, ...]:
        """How rows share a layer's outputs."""
        return tuple(Part(s.size, min(self.number(s.kind), rows)) for s in self.inputs[layer])

    def slicing(self, mesh: Mesh) -> Heads:
        """How the ranks of a row share the outputs of all layers, one after another."""
        rows, columns = mesh.shape
        sections = [s for each in self.inputs.values() for s in each]
        widths = tuple(s.size // min(self.number(s.kind), rows) for s in sections)
        copies = tuple(columns // self._pieces_of_row(s, rows, columns) for s in sections)
        return Heads(columns, widths, copies)

    def core_slicing(self, mesh: Mesh) -> Heads:
        """The same for what the last layer gets."""
        rows, columns = mesh.shape
        return Heads(columns, (self.core.size // rows,), (1,))

    def cut(self, section: Section | None, mesh: Mesh) -> Cut:
        """How a parameter of this section is split over all ranks."""
        if section is None:
            return Cut()
        rows, columns = mesh.shape
        pieces = min(self.number(section.kind), rows)
        pieces *= self._pieces_of_row(section, rows, columns)
        return Cut(0, 0, (Part(section.size, pieces),))

    def _pieces_of_row(self, section: Section, rows: int, columns: int) -> int:
        return min(columns, max(1, self.number(section.kind) // rows))

    def take(
        self, whole: torch.Tensor, sections: Sequence[Section], share: int, shares: int
    ) -> torch.Tensor:
        """The values of one of this many equal shares of the heads, on the first axis."""
        begin, taken = 0, []
        for section in sections:
            number = self.number(section.kind)
            width = section.size // number
            count = max(1, number // shares)
            first = share * number // shares
            taken.append(whole.narrow(0, begin + first * width, count * width))
            begin += section.size
        return torch.cat(taken)


def plain_layout(counts: HeadCounts, inputs: Sequence[str]) -> HeadLayout:
    """One layer for queries, keys and values, or three, with the same width for each head."""
    queries = Section(counts.heads * counts.width)
    keys = Section(counts.kv * counts.width, KV)
    sections = (queries, keys, keys)
    each = [sections] if len(inputs) == 1 else [(section,) for section in sections]
    return HeadLayout(counts, dict(zip(inputs, each, strict=True)), queries)
