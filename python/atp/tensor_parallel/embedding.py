"""The tables of tokens and positions: not in the paper, but what fits its blocks."""

import torch
from torch import nn

from atp.tensor_parallel.conjugates import arrive, depart, reduce_hop
from atp.tensor_parallel.linear import cut_parameter, require_divides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.overlap import Steps, run
from atp.tensor_parallel.sharding import Cut

__all__ = ["ATPEmbedding", "ATPPositions", "require_tokens"]


class ATPEmbedding(nn.Module):
    """Token numbers [...] -> [..., h/d2]; the table is [Shard(0), Shard(1)].

    Each row of the mesh has some of the vocabulary and looks up what it has; a sum over dimension 1
    makes it whole. The table is cut as the head's weight is, so the two can be one.

    Raises:
        ValueError: d1 does not divide the vocabulary (pad it) or d2 the hidden size; in forward, a
            number is none of the vocabulary's.
    """

    def __init__(self, embedding: nn.Embedding, mesh: Mesh, site: str = "embedding"):
        super().__init__()
        require_divides(mesh.first, site, "tokens (pad the vocabulary)", embedding.num_embeddings)
        require_divides(mesh.second, site, "features", embedding.embedding_dim)
        self.num_embeddings, self.embedding_dim = embedding.num_embeddings, embedding.embedding_dim
        self.mesh, self.site = mesh, site
        self.weight = cut_parameter(embedding.weight, Cut(0, 1), mesh)

    def steps(self, tokens: torch.Tensor) -> Steps:
        first = self.mesh.first
        require_tokens(self.site, tokens, self.num_embeddings)
        if first.size == 1:
            return nn.functional.embedding(tokens, self.weight)
        own = tokens - first.index * self.weight.shape[0]
        missing = (own < 0) | (own >= self.weight.shape[0])
        found = nn.functional.embedding(own.masked_fill(missing, 0), self.weight)
        hop = reduce_hop(first)
        token = depart(found.masked_fill(missing.unsqueeze(-1), 0), hop)
        yield
        return arrive(token, hop)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return run(self.steps(tokens))


def require_tokens(site: str, tokens: torch.Tensor, vocabulary: int) -> None:
    """Raises ValueError for a number that no row of the mesh has: it would count as nothing."""
    if tokens.numel() == 0:
        return
    least, most = (number.item() for number in tokens.aminmax())
    if least < 0 or most >= vocabulary:
        raise ValueError(
            f"{site}: found numbers from {least} to {most}, expected 0 to {vocabulary - 1}"
        )


def require_positions(site: str, positions: torch.Tensor, known: int) -> None:
    """Raises ValueError for a sequence that is longer than the table."""
    if positions.numel() and positions.max().item() >= known:
        tokens = positions.max().item() + 1
        raise ValueError(f"{site}: found {tokens} tokens, but the model has {known} positions")


class ATPPositions(nn.Module):
    """Position numbers [...] -> [..., h/d2]; the table is [Replicate, Shard(1)], and nothing moves.

    For tables that are small beside the blocks; a sum would cost more than it saves.

    Raises:
        ValueError: d2 does not divide the hidden size; in forward, a position is none of the
            table's.
    """

    def __init__(self, embedding: nn.Embedding, mesh: Mesh, site: str = "positions"):
        super().__init__()
        require_divides(mesh.second, site, "features", embedding.embedding_dim)
        self.site = site
        self.weight = cut_parameter(embedding.weight, Cut(None, 1), mesh)

    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        require_positions(self.site, positions, self.weight.shape[0])
        return nn.functional.embedding(positions, self.weight)
