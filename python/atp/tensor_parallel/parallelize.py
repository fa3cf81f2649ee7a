"""Turns a model of plain torch modules into one that runs on a mesh."""

import contextlib
import datetime
import fnmatch
import functools
import hashlib
import zlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.agreement import PATIENCE, agree
from atp.tensor_parallel.block_tokens import name_of_blocks, share_tokens
from atp.tensor_parallel.checks import check_runs
from atp.tensor_parallel.difference import counted
from atp.tensor_parallel.dropout import ATPDropout
from atp.tensor_parallel.dtensors import check_placements, distribute
from atp.tensor_parallel.experts import ATPExperts, count_columns
from atp.tensor_parallel.mesh import Mesh, current_mesh
from atp.tensor_parallel.overlap import run_chunks
from atp.tensor_parallel.plans import plan_of
from atp.tensor_parallel.roles import Inner, KeptAttentionRole, Plan, Role
from atp.tensor_parallel.unchanged import is_like_transformers
from atp.tensor_parallel.watch import watch_first_runs
from atp.tensor_parallel.whole_offers import offer_what_is_whole
from atp.tensor_parallel.wrappers import wrapper_in

__all__ = ["mesh_of", "parallelize", "roles_of"]


def parallelize(
    model: nn.Module,
    plan: Plan | Mesh | None = None,
    mesh: Mesh | None = None,
    *,
    chunks: int = 1,
    dtensors: bool = False,
    patience: datetime.timedelta = PATIENCE,
) -> nn.Module:
    """Replaces the modules named in the plan by parallel ones, in place; a collective.

    Every rank must hold the same whole model with the same values; it keeps its pieces. Parameters
    keep their names, and a parameter that two modules share stays shared. Between the blocks,
    activations are [b, s, h/d2]. The head of a model of transformers returns all logits; a
    column-first head returns [b, s, V/d1], for `vocabulary_parallel_cross_entropy`. Each nn.Dropout
    between the blocks becomes one that drops the same values on all ranks of a column, whatever
    the ranks' seeds.

    Args:
        plan: roles by name; default: the plan that `plan_of` finds for an
            `atp.tensor_parallel.Transformer` or a model of transformers. Every parameter must
            belong to a module with a role. Without a plan, the mesh may be the second argument.
        mesh: default: the one that init_mesh() made last.
        chunks: the number of parts of a batch; one computes while others communicate (paper §4.1;
            2 or 4 are usual). With more than one, the model's modules need `steps`.
        dtensors: the parameters become torch's DTensors on the mesh, for fully_shard,
            torch.distributed.checkpoint and other users of DTensors (docs/plan/tensor-parallel.md).
        patience: how long to wait for the other ranks.

    Returns:
        The model.

    Raises:
        ValueError: the model cannot be split this way, or the ranks disagree; raised on every rank,
            and no model is changed.
        TimeoutError: a rank did not make this call in time.
    """
    if not isinstance(model, nn.Module):
        raise ValueError(f"model: found {model!r}, expected a torch.nn.Module")
    if isinstance(plan, Mesh):
        plan, mesh = None, plan
    mesh = mesh or current_mesh()
    error, roles, replacements, modules, said, watched = None, {}, {}, {}, "", False
    blocks = None
    try:
        _check_is_whole(model)
        watched = plan is None and is_like_transformers(model)
        plan = plan_of(model) if plan is None else plan
        _check_chunks(model, chunks)
        roles = roles_of(model, plan)
        if watched and mesh.splits_tokens:
            blocks = _name_of_blocks(model, roles)
        replacements = _build(model, roles, mesh, blocks)
        if dtensors:
            check_placements(replacements, mesh)
        replacements |= _dropouts(model, replacements, mesh, blocks)
        modules = _describe(model, roles)
        said = _fingerprint(model, modules, mesh, chunks) + ", DTensors" * dtensors
    except (ValueError, TypeError) as wrong:
        error = wrong
    agree(f"parallelize: {said}", modules=modules, error=error, patience=patience)
    _install(model, replacements)
    if dtensors:
        distribute(model, mesh)
    model.atp_mesh = mesh
    offer_what_is_whole(model, mesh)
    check_runs(model, mesh)
    ends = share_tokens(model, blocks, mesh) if blocks is not None else []
    has_inner = mesh.first.size > 1 and any(isinstance(role, Inner) for role in roles.values())
    if watched and (mesh.second.size > 1 or blocks is not None or has_inner):
        watch_first_runs(model, roles, mesh, blocks, ends, has_inner)
    _run_with_its_randomness(model, mesh)
    if chunks > 1:
        model.forward = functools.partial(_chunked_forward, model, chunks)
    return model


def _run_with_its_randomness(model: nn.Module, mesh: Mesh) -> None:
    """In training only: evaluation draws none of the mesh's random numbers."""
    batches = contextlib.ExitStack()

    def begin(module: nn.Module, _inputs: Any) -> None:
        if module.training:
            batches.enter_context(mesh.randomness.batch())

    def end(_module: nn.Module, _inputs: Any, _outputs: Any) -> None:
        batches.close()

    model.register_forward_pre_hook(begin)
    model.register_forward_hook(end, always_call=True)


def mesh_of(model: nn.Module) -> Mesh:
    """The mesh that a model was parallelized on."""
    mesh = getattr(model, "atp_mesh", None)
    if mesh is None:
        raise ValueError(f"this {type(model).__name__} has not been passed to parallelize()")
    return mesh


def roles_of(model: nn.Module, plan: Plan) -> dict[str, Role]:
    """The roles by module name, with the plan's patterns resolved."""
    modules = dict(model.named_modules())
    roles: dict[str, Role] = {}
    for pattern, role in plan.items():
        names = [name for name in modules if name and fnmatch.fnmatchcase(name, pattern)]
        names = [name for name in names if name.count(".") == pattern.count(".")]
        if not names:
            raise ValueError(f"plan: the model has no module {pattern!r}")
        roles |= dict.fromkeys(names, role)
    return roles


def _name_of_blocks(model: nn.Module, roles: Mapping[str, Role]) -> str:
    attention = [name for name, role in roles.items() if isinstance(role, KeptAttentionRole)]
    return name_of_blocks(model, attention)


def _mesh_at(name: str, mesh: Mesh, blocks: str | None) -> Mesh:
    """The mesh as a module sees it. blocks: outside of these all rows have all tokens."""
    is_outside = blocks is not None and not name.startswith(f"{blocks}.")
    return mesh.with_whole_sequences() if is_outside else mesh


def _build(
    model: nn.Module, roles: Mapping[str, Role], mesh: Mesh, blocks: str | None
) -> dict[str, nn.Module]:
    replacements = {
        name: role.build(model.get_submodule(name), _mesh_at(name, mesh, blocks), name)
        for name, role in roles.items()
    }
    _check_all_have_roles(model, replacements)
    return replacements


def _dropouts(
    model: nn.Module, replacements: Mapping[str, nn.Module], mesh: Mesh, blocks: str | None
) -> dict[str, nn.Module]:
    """The dropouts between the modules with roles."""
    found = {}
    for name, module in model.named_modules():
        if any(name.startswith(f"{replaced}.") for replaced in replacements):
            continue
        if type(module) is nn.Dropout:
            found[name] = ATPDropout(module.p, _mesh_at(name, mesh, blocks))
        elif isinstance(module, nn.modules.dropout._DropoutNd) and module.p > 0:
            raise ValueError(
                f"{name}: {type(module).__name__} cannot be split; use nn.Dropout, or p=0"
            )
    return found


def _check_all_have_roles(model: nn.Module, replacements: dict[str, nn.Module]) -> None:
    left = [
        name
        for name, _ in model.named_parameters(remove_duplicate=False)
        if not any(name.startswith(f"{replaced}.") for replaced in replacements)
    ]
    if left:
        more = f" and {len(left) - 4} more" if len(left) > 4 else ""
        raise ValueError(f"plan: no role says how to split {', '.join(left[:4])}{more}")


def _check_is_whole(model: nn.Module) -> None:
    before = getattr(model, "atp_mesh", None)
    if before is not None:
        raise ValueError(f"this {type(model).__name__} is already parallelized, on {before}")
    if (wrapper := wrapper_in(model)) is not None:
        raise ValueError(
            f"found a {wrapper}, expected the model itself: it would not see the pieces; call "
            "parallelize() first, and wrap its result"
        )


def _check_chunks(model: nn.Module, chunks: int) -> None:
    if chunks < 1:
        raise ValueError(f"chunks: found {chunks}, expected at least 1")
    if chunks > 1 and not hasattr(model, "steps"):
        raise ValueError(
            f"{type(model).__name__} has no steps(), so its chunks cannot be interleaved; "
            "use chunks=1"
        )


def _install(model: nn.Module, replacements: dict[str, nn.Module]) -> None:
    shared: dict[int, nn.Parameter] = {}
    for name, replacement in replacements.items():
        before = model.get_submodule(name)
        replacement.train(before.training)
        parent, _, last = name.rpartition(".")
        setattr(model.get_submodule(parent), last, replacement)
        if isinstance(replacement, ATPExperts):
            count_columns(model.get_submodule(parent), replacement)
        for key, whole in before.named_parameters():
            owner, _, leaf = key.rpartition(".")
            module = replacement.get_submodule(owner)
            setattr(module, leaf, shared.setdefault(id(whole), getattr(module, leaf)))


def _chunked_forward(model: Any, chunks: int, *batch: torch.Tensor) -> torch.Tensor:
    return torch.cat(run_chunks(model, batch, chunks))


def _describe(model: nn.Module, roles: Mapping[str, Role]) -> dict[str, str]:
    """A description of each module and of each tensor of its state."""
    tensors = {name: _describe_tensor(tensor) for name, tensor in model.state_dict().items()}
    return {name: repr(role).removesuffix("()") for name, role in roles.items()} | tensors


def _describe_tensor(tensor: torch.Tensor) -> str:
    """With a checksum: ranks that start with different values would not train one model."""
    kind = f"{list(tensor.shape)} of {str(tensor.dtype).removeprefix('torch.')}"
    if tensor.is_meta:
        return kind
    values = tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy()
    return f"{kind}, checksum {zlib.crc32(values):08x}"


def _fingerprint(model: nn.Module, modules: Mapping[str, str], mesh: Mesh, chunks: int) -> str:
    digest = hashlib.sha256(repr(sorted(modules.items())).encode()).hexdigest()
    size = sum(p.numel() for p in model.parameters())
    return (
        f"{type(model).__name__} of {size} parameters, plan {digest[:8]}, "
        f"{counted(chunks, 'chunk')}, {mesh}"
    )
