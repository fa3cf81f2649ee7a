"""Refuses wrappers that would take a rank's pieces for copies of a model.

DistributedDataParallel sends rank 0's parameters to all ranks of its group, and FSDP gives each
rank a share of them. Pieces of a parameter have equal shapes, so over the ranks of a mesh neither
would notice, and the model would train on garbage. Accelerate and the Trainer of transformers wrap
a model by themselves, over all ranks of the job.
"""

import functools
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.modules.module import register_module_module_registration_hook

from atp.tensor_parallel.difference import name_ranks

__all__ = ["check_group", "refuse_wrappers_of_pieces", "wrapper_in"]

# Where wrappers keep their groups: DistributedDataParallel, FSDP and fairscale's, hybrid FSDP.
_GROUPS = ("process_group", "_inter_node_pg")


@functools.cache  # torch keeps one list of such hooks for the whole process
def refuse_wrappers_of_pieces() -> None:
    """From now on a wrapper raises ValueError when it is given a module with pieces and a group of
    other ranks than the replicas of these pieces: before it sends anything, in the case of
    DistributedDataParallel."""
    register_module_module_registration_hook(_refuse)


def _refuse(wrapper: nn.Module, _name: str, module: nn.Module | None) -> None:
    if module is None:
        return
    for group in _groups_of(wrapper):
        mesh = _mesh_in(module)
        if mesh is not None:
            check_group(f"{type(wrapper).__name__}({type(module).__name__})", group, mesh)


def _groups_of(wrapper: nn.Module) -> list[dist.ProcessGroup]:
    found = (vars(wrapper).get(name) for name in _GROUPS)
    return [group for group in found if isinstance(group, dist.ProcessGroup)]


def _mesh_in(module: nn.Module) -> Any:
    """The mesh of the first module that has pieces."""
    return next((each.mesh for each in module.modules() if "atp_cuts" in vars(each)), None)


def check_group(who: str, group: dist.ProcessGroup, mesh: Any) -> None:
    """Raises ValueError if the group has ranks that hold other pieces than this one."""
    found = sorted(dist.get_process_group_ranks(group))
    replicas = sorted(dist.get_process_group_ranks(mesh.data.group))
    if set(found) <= set(replicas):
        return
    more = "pass process_group=mesh.data.group"
    if mesh.data.size == 1:
        more = f"without replicas the model needs none; {more} of init_mesh(..., data_parallel=N)"
    raise ValueError(
        f"{who}: found a process group of {name_ranks(found)}, expected {name_ranks(replicas)}: on "
        f"{mesh} the others hold other pieces of the model, which would overwrite each other; "
        f"{more}. accelerate and the Trainer of transformers wrap a model over all ranks, so they "
        "cannot train a parallelized one: write the loop yourself"
    )


def wrapper_in(model: nn.Module) -> str | None:
    """The name of the first class in a model that has a process group of its own."""
    return next((type(each).__name__ for each in model.modules() if _groups_of(each)), None)
