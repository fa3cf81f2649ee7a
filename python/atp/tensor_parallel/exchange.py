"""What the ranks of a replica tell each other in checks: a short text each.

It goes over the mesh's own groups, past the counters of its traffic: checks are not of the model.
"""

import hashlib
from collections.abc import Mapping

import torch
import torch.distributed as dist

from atp.tensor_parallel.difference import name_ranks
from atp.tensor_parallel.dimension import Dimension
from atp.tensor_parallel.mesh import Mesh

__all__ = ["everyone_says", "gather_values", "sides"]

_BYTES = 512
"""Of a text on its way. Longer ones are cut, and differ by their checksum."""


def everyone_says(mesh: Mesh, text: str) -> dict[int, str]:
    """The texts of all ranks of this rank's replica, by the job's ranks; a collective of them."""
    said = text.encode()
    if len(said) > _BYTES:
        said = f"{hashlib.sha256(said).hexdigest()[:8]} ".encode() + said[: _BYTES - 9]
    own = torch.frombuffer(bytearray(said.ljust(_BYTES, b"\0")), dtype=torch.uint8)
    return {rank: _text(values) for rank, values in gather_values(mesh, own).items()}


def _text(values: torch.Tensor) -> str:
    return bytes(values.tolist()).rstrip(b"\0").decode(errors="replace")


def gather_values(
    mesh: Mesh, own: torch.Tensor, *, of_all_replicas: bool = False
) -> dict[int, torch.Tensor]:
    """The same for tensors of one shape and type."""
    every = _gather(mesh.second, _gather(mesh.first, own.view(torch.uint8)))  # [d2, d1, ...]
    ranks = mesh.device_mesh.mesh
    if of_all_replicas:
        every = _gather(mesh.data, every)
    else:
        every, ranks = every.unsqueeze(0), ranks[mesh.data.index].unsqueeze(0)
    return {
        int(ranks[replica, row, column]): every[replica, column, row].view(own.dtype)
        for replica in range(len(ranks))
        for row in range(mesh.first.size)
        for column in range(mesh.second.size)
    }


def _gather(dimension: Dimension, own: torch.Tensor) -> torch.Tensor:
    if dimension.size == 1:
        return own.unsqueeze(0)
    every = own.new_empty(dimension.size, *own.shape)
    dist.all_gather_single(every.view(-1), own.contiguous().view(-1), group=dimension.group)
    return every


def sides(said: Mapping[int, str]) -> str:
    """Who says what, for example "ranks 0, 1: this; rank 2: that"."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(said):
        ranks.setdefault(said[rank], []).append(rank)
    return "; ".join(f"{name_ranks(who)}: {what}" for what, who in ranks.items())
