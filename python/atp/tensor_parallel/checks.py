"""Checks, while a model runs, that its ranks still train one model.

All ranks of a replica must run the same batch and compute the same loss, and what several ranks
hold must stay the same. If it does not, the loss still falls and nothing else says so. The first
three runs of a model are checked, and then every hundredth.
"""

import zlib
from collections.abc import Iterator, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from atp.tensor_parallel.exchange import everyone_says, gather_values, sides
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.precision import is_half
from atp.tensor_parallel.sharding import Cut, copies_in, is_cut_further, local, note_copied_holders

__all__ = ["Turns", "check_copies", "check_runs", "check_targets", "watch_gradient"]

FIRST, EVERY = 3, 100
_SAMPLE = 1 << 16
"""How many values of a parameter are compared while it trains; save() compares all."""

_SAME = (
    "all ranks of a replica need the same sequences and targets (a DistributedSampler takes "
    "num_replicas=mesh.data.size, rank=mesh.data.index)"
)


class Turns:
    """Which of the runs are checked: the same on all ranks, as they run together."""

    def __init__(self):
        self._runs = 0

    def is_next(self) -> bool:
        run, self._runs = self._runs, self._runs + 1
        return run < FIRST or run % EVERY == 0


def check_runs(model: nn.Module, mesh: Mesh) -> None:
    """Checks a model's batches from now on, and in training what its ranks hold copies of.

    Raises:
        ValueError: from those runs, on every rank of the replica.
    """
    turns = {True: Turns(), False: Turns()}

    def begin(module: nn.Module, inputs: tuple, named: Mapping[str, Any]) -> None:
        if turns[module.training].is_next():
            note_copied_holders(module)
            _check_batch(module, mesh, inputs, named)
            if module.training:
                check_copies(module, mesh, _SAMPLE)

    model.register_forward_pre_hook(torch.compiler.disable(begin), with_kwargs=True)


def _check_batch(model: nn.Module, mesh: Mesh, inputs: tuple, named: Mapping[str, Any]) -> None:
    """Compares whole numbers: token numbers, masks, targets. Others may be a rank's pieces."""
    given = {f"argument {number + 1}": value for number, value in enumerate(inputs)} | dict(named)
    said = [f"{name} {_described(x)}" for name, value in given.items() for x in _numbers_in(value)]
    _refuse_differences(mesh, f"{type(model).__name__}", ", ".join(said))


def _numbers_in(value: Any) -> Iterator[torch.Tensor]:
    for x in tree_leaves(value):
        if isinstance(x, torch.Tensor) and not x.is_floating_point() and not x.is_complex():
            yield x


def _described(x: torch.Tensor) -> str:
    return f"{list(x.shape)} with checksum {_checksum(x):08x}"


def _checksum(x: torch.Tensor) -> int:
    own = x.detach().cpu().contiguous().flatten().view(torch.uint8)
    return zlib.crc32(own.clone().numpy())  # FSDP resizes storages, and numpy's never again


def _refuse_differences(mesh: Mesh, what: str, own: str) -> None:
    said = everyone_says(mesh, own)
    if len(set(said.values())) > 1:
        raise ValueError(f"{what}: the ranks run different batches: {sides(said)}; {_SAME}")


_turns_of_losses: WeakKeyDictionary[Mesh, Turns] = WeakKeyDictionary()


@torch.compiler.disable
def check_targets(targets: torch.Tensor, mesh: Mesh) -> None:
    """Raises ValueError if the ranks of a replica have different ones; in turns."""
    if _turns_of_losses.setdefault(mesh, Turns()).is_next():
        _refuse_differences(mesh, "targets", _described(targets))


def watch_gradient(logits: torch.Tensor, mesh: Mesh, site: str, turns: Turns) -> None:
    """Checks that the loss which is computed from whole logits is the same on all ranks."""
    if logits.requires_grad and turns.is_next():
        logits.register_hook(lambda gradient: _check_gradient(gradient, mesh, site))


def _check_gradient(gradient: torch.Tensor, mesh: Mesh, site: str) -> None:
    """Compares its norm, and its product with random vectors: other targets, other products."""
    rows = gradient.detach().flatten(0, -2)
    draw = torch.Generator().manual_seed(0)
    right, left = (torch.randn(n, generator=draw).to(rows) for n in reversed(rows.shape))
    norm = torch.linalg.vector_norm(rows)
    own = torch.stack([norm, left @ (rows @ right)]).double().cpu()
    tolerance = 1e-2 if is_half(gradient) else 1e-4
    every = gather_values(mesh, own)
    all_of_them = torch.stack([*every.values()])
    spread = all_of_them.amax(0) - all_of_them.amin(0)
    if spread.max() > tolerance * all_of_them[:, 0].max():
        said = {rank: f"gradient {x[0]:.6g}, along {x[1]:.6g}" for rank, x in every.items()}
        raise ValueError(
            f"{site}: the ranks compute different losses from their logits: {sides(said)}; {_SAME}"
        )


def check_copies(model: nn.Module, mesh: Mesh, most: int | None = None) -> None:
    """A collective of the job.

    Args:
        most: compare only about so many values of each parameter.

    Raises:
        ValueError: copies of a parameter differ, on ranks of a replica or between replicas.
    """
    copies = [each for each in _copies(model) if mesh.data.size > 1 or each[1].is_held_twice(mesh)]
    if not copies:
        return
    sums = torch.tensor([_checksum(_some(x, most)) for _, _, x in copies])
    every = gather_values(mesh, sums, of_all_replicas=True)
    for number, (name, where, _) in enumerate(copies):
        found = {rank: int(values[number]) for rank, values in every.items()}
        _refuse_different_copies(name, where, found, mesh)


class _Where:
    """Which ranks hold copies of a piece: those at the same place."""

    def __init__(self, cut: Cut, pieces: int | None):
        self._cut, self._pieces = cut, pieces

    def place(self, mesh: Mesh, row: int, column: int) -> tuple[int | None, int | None]:
        rows, columns = mesh.shape
        of_row = None if self._cut.axis1 is None else row
        of_column = None if self._cut.axis2 is None else column
        if self._cut.by_ranks:
            rows, of_row, of_column = rows * columns, row * columns + column, None
        if of_row is not None and self._pieces is not None:
            of_row = of_row * self._pieces // rows
        return of_row, of_column

    def is_held_twice(self, mesh: Mesh) -> bool:
        rows, columns = mesh.shape
        places = [self.place(mesh, row, column) for row in range(rows) for column in range(columns)]
        return len(set(places)) < len(places)


def _copies(model: nn.Module) -> Iterator[tuple[str, _Where, torch.Tensor]]:
    """The pieces of all parameters, and of each of their parts."""
    seen: set[int] = set()
    for site, module in model.named_modules():
        for leaf, cut in vars(module).get("atp_cuts", {}).items():
            parameter = getattr(module, leaf)
            if parameter is None or is_cut_further(parameter) or id(parameter) in seen:
                continue
            seen.add(id(parameter))
            yield from _parts(".".join(filter(None, (site, leaf))), cut, parameter, module.mesh)


def _parts(
    name: str, cut: Cut, parameter: torch.Tensor, mesh: Mesh
) -> Iterator[tuple[str, _Where, torch.Tensor]]:
    whole = local(parameter.detach())
    parts = [part for part, _ in copies_in(cut, whole, mesh)]
    for each, part in zip(cut.parts or (None,), parts, strict=True):
        yield name, _Where(cut, each and each.pieces), part


def _some(x: torch.Tensor, most: int | None) -> torch.Tensor:
    if most is None or x.numel() <= most:
        return x
    return x.flatten()[:: -(-x.numel() // most)]


def _refuse_different_copies(
    name: str, where: _Where, found: Mapping[int, int], mesh: Mesh
) -> None:
    of_place: dict[tuple, dict[int, str]] = {}
    for replica in mesh.device_mesh.mesh.tolist():
        for row, ranks in enumerate(replica):
            for column, rank in enumerate(ranks):
                place = where.place(mesh, row, column)
                of_place.setdefault(place, {})[rank] = f"{found[rank]:08x}"
    for said in of_place.values():
        if len(set(said.values())) > 1:
            raise ValueError(
                f"{name}: its copies differ (checksums of {sides(said)}): these ranks have not "
                "trained one model. Clip with atp.tensor_parallel.clip_grad_norm_, give all ranks "
                "of a replica the same batch, change copies alike, and sum the gradients of "
                "replicas: DistributedDataParallel(model, process_group=mesh.data.group)"
            )
