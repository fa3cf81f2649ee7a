"""Parameters as torch's DTensors on the mesh, for code that works with DTensors.

torch.distributed.checkpoint, fully_shard, torch's clip_grad_norm_ and the like then see the whole
parameter and where its pieces are. The modules still compute with pieces.
"""

from collections.abc import Mapping

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.sharding import Cut

__all__ = ["check_placements", "distribute", "placements_of", "wrapped"]


def placements_of(cut: Cut, mesh: Mesh, name: str) -> tuple[Placement, Placement]:
    """Where the pieces of a parameter are, on the dimensions "tp1" and "tp2".

    Raises:
        ValueError: no placement can express it.
    """
    rows = mesh.first.size
    if len(cut.parts) > 1 and rows * (mesh.second.size if cut.by_ranks else 1) > 1:
        raise ValueError(
            f"{name}: it has {len(cut.parts)} parts (queries, keys and values) that d1 = {rows} "
            "splits separately, which no placement of a DTensor can express; use d1 = 1, or "
            "parallelize() without dtensors=True, with save() and load()"
        )
    ranks = rows * (mesh.second.size if cut.by_ranks else 1)
    if any(part.pieces != ranks for part in cut.parts):
        raise ValueError(
            f"{name}: some of the d1 = {rows} rows hold copies of the same key-value head (it has "
            f"{cut.parts[0].pieces}), which no placement of a DTensor can express; use a d1 that "
            "divides that number, or parallelize() without dtensors=True, with save() and load()"
        )
    first = Replicate() if cut.axis1 is None else Shard(cut.axis1)
    second = Replicate() if cut.axis2 is None else Shard(cut.axis2)
    return first, second


def check_placements(replacements: Mapping[str, nn.Module], mesh: Mesh) -> None:
    """Raises ValueError if a parameter of these modules cannot be a DTensor."""
    for site, replacement in replacements.items():
        for name, module in replacement.named_modules():
            for leaf, cut in _cuts(module):
                placements_of(cut, mesh, ".".join(filter(None, (site, name, leaf))))


def distribute(model: nn.Module, mesh: Mesh) -> None:
    """Makes DTensors of the parameters from this rank's pieces; shared ones stay shared."""
    device_mesh = mesh.device_mesh["tp1", "tp2"]
    known: dict[nn.Parameter, nn.Parameter] = {}
    for module in model.modules():
        for leaf, cut in _cuts(module):
            own = getattr(module, leaf)
            if own not in known:
                known[own] = _distributed(own, cut, mesh, device_mesh, leaf)
            setattr(module, leaf, known[own])


def _cuts(module: nn.Module) -> list[tuple[str, Cut]]:
    cuts = module.__dict__.get("atp_cuts", {})
    return [(leaf, cut) for leaf, cut in cuts.items() if getattr(module, leaf) is not None]


def _distributed(
    own: nn.Parameter, cut: Cut, mesh: Mesh, device_mesh: DeviceMesh, name: str
) -> nn.Parameter:
    shape = torch.Size(cut.full_shape(own.shape, mesh.shape))
    tensor = DTensor.from_local(
        own.detach(),
        device_mesh,
        placements_of(cut, mesh, name),
        run_check=False,
        shape=shape,
        stride=torch.empty(shape, device="meta").stride(),
    )
    return nn.Parameter(tensor, requires_grad=own.requires_grad)


def wrapped(own: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    """This rank's piece of a tensor that belongs to a parameter, in the parameter's form."""
    if not isinstance(like, DTensor):
        return own
    return DTensor.from_local(
        own,
        like.device_mesh,
        like.placements,
        run_check=False,
        shape=like.shape,
        stride=like.stride(),
    )
