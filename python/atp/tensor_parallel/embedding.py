"""The tables of tokens and positions: not in the paper, but they fit its blocks."""

import torch
from torch import nn

from atp.tensor_parallel.conjugates import arrive, depart, reduce_hop, scatter_tokens_hop
from atp.tensor_parallel.copies import used_by_tokens
from atp.tensor_parallel.linear import cut_parameter, require_divides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.overlap import Steps, run
from atp.tensor_parallel.sharding import Cut, Part, adopt, piece

__all__ = [
    "ATPEmbedding",
    "ATPPositions",
    "first_token",
    "require_tokens",
    "require_tokens_divide",
    "vocabulary_part",
]


class ATPEmbedding(nn.Module):
    """Token numbers [...] -> [..., h/d2]; the table is [Shard(0), Shard(1)].

    Each row of the mesh has a part of the vocabulary and looks up its own tokens; a sum over
    dimension 1 completes the result; with sequence parallelism, each row keeps only the part of it
    for its tokens. The table is split like the head's weight, so the two can be one. If d1 does not
    divide the vocabulary, the last row has less of it: no padding is needed.

    scale: what the result is multiplied by.

    Raises:
        ValueError: d2 does not divide the hidden size, or a row would have no token at all; in
            forward: a number is not in the vocabulary.
    """

    def __init__(
        self, embedding: nn.Embedding, mesh: Mesh, site: str = "embedding", scale: float = 1.0
    ):
        super().__init__()
        self.scale = scale
        require_divides(mesh.second, site, "features", embedding.embedding_dim)
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.mesh, self.site = mesh, site
        part = vocabulary_part(embedding.num_embeddings, mesh, site)
        self.padding_idx = embedding.padding_idx
        cut = Cut(0, 1, (part,))
        adopt(self, "weight", cut_parameter(embedding.weight, cut, mesh), cut)

    def steps(self, tokens: torch.Tensor) -> Steps:
        first = self.mesh.first
        require_tokens(self.site, tokens, self.num_embeddings)
        table = piece(self, "weight")
        own = tokens - first_token(self.num_embeddings, self.mesh)
        missing = (own < 0) | (own >= table.shape[0])
        found = nn.functional.embedding(own.masked_fill(missing, 0), table)
        if self.padding_idx is not None:  # it is looked up, but gets no gradient
            padding = (tokens == self.padding_idx).unsqueeze(-1)
            found = torch.where(padding, found.detach(), found)
        if first.size == 1:
            return found
        if self.mesh.splits_tokens:
            require_tokens_divide(self.site, self.mesh, tokens.shape[-1])
            hop = scatter_tokens_hop(first)
        else:
            hop = reduce_hop(first)
        token = depart(found.masked_fill(missing.unsqueeze(-1), 0), hop)
        yield
        return arrive(token, hop)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        found = run(self.steps(tokens))
        return found if self.scale == 1.0 else found * self.scale


def vocabulary_part(vocabulary: int, mesh: Mesh, site: str) -> Part:
    """How rows share a vocabulary. Raises ValueError if one of them would have no token."""
    part = Part(vocabulary, mesh.first.size)
    if part.of(mesh.first.size - 1, mesh.first.size)[1] == 0:
        raise ValueError(
            f"{site}: a vocabulary of {vocabulary} tokens leaves a row of d1 = {mesh.first.size} "
            "without any; choose another mesh"
        )
    return part


def first_token(vocabulary: int, mesh: Mesh) -> int:
    """The first token of this row's part."""
    return Part(vocabulary, mesh.first.size).of(mesh.first.index, mesh.first.size)[0]


def require_tokens(site: str, tokens: torch.Tensor, vocabulary: int) -> None:
    """Raises ValueError for a number that no row of the mesh has: it would become zeros."""
    if tokens.numel() == 0:
        return
    least, most = (number.item() for number in tokens.aminmax())
    if least < 0 or most >= vocabulary:
        raise ValueError(
            f"{site}: found numbers from {least} to {most}, expected 0 to {vocabulary - 1}"
        )


def require_tokens_divide(site: str, mesh: Mesh, length: int) -> None:
    """Raises ValueError if the rows cannot have the same number of a sequence's tokens."""
    if length % mesh.first.size:
        raise ValueError(
            f"{site}: sequence parallelism needs equal parts of a sequence, but d1 = "
            f"{mesh.first.size} does not divide its {length} tokens; pad the sequences, or choose "
            "another mesh"
        )


def require_positions(site: str, positions: torch.Tensor, known: int) -> None:
    """Raises ValueError for a sequence longer than the table."""
    if positions.numel() and positions.max().item() >= known:
        tokens = positions.max().item() + 1
        raise ValueError(f"{site}: found {tokens} tokens, but the model has {known} positions")


class ATPPositions(nn.Module):
    """Position numbers [...] -> [..., h/d2]; the table is [Replicate, Shard(1)], and nothing moves.

    For tables that are small compared to the blocks; a sum would cost more than it saves. With
    sequence parallelism the result is that of this row's positions, and the table's gradient is
    summed on dimension 1.

    Raises:
        ValueError: d2 does not divide the hidden size; in forward: a position is not in the
            table.
    """

    def __init__(self, embedding: nn.Embedding, mesh: Mesh, site: str = "positions"):
        super().__init__()
        require_divides(mesh.second, site, "features", embedding.embedding_dim)
        self.mesh, self.site = mesh, site
        cut = Cut(None, 1)
        adopt(self, "weight", cut_parameter(embedding.weight, cut, mesh), cut)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        (table,) = used_by_tokens(self.mesh, piece(self, "weight"))
        require_positions(self.site, positions, table.shape[0])
        if self.mesh.splits_tokens:
            require_tokens_divide(self.site, self.mesh, positions.shape[-1])
            positions = positions.chunk(self.mesh.first.size, -1)[self.mesh.row]
        return nn.functional.embedding(positions, table)
