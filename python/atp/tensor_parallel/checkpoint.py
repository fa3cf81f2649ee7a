"""Checkpoints: saved from one mesh, loaded on any other, or from and to an unsharded state dict.

A checkpoint is a folder with one file per rank and a manifest that names these pieces. Saving
writes pieces under new names and then replaces the manifest, so at every moment the folder holds a
complete checkpoint, either the earlier one or the new one.
"""

import contextlib
import datetime
import json
import os
import pathlib
import secrets
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.agreement import agree
from atp.tensor_parallel.checks import check_copies
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.optimizer_state import Placed, fill_optimizer, groups_of, state_of
from atp.tensor_parallel.parallelize import mesh_of
from atp.tensor_parallel.sharding import Cut, Part, cuts_of, is_cut_further, local

__all__ = ["full_state_dict", "load", "load_full_state_dict", "save"]

_FORMAT = "atp tensor parallel checkpoint 2"
_MANIFEST = "checkpoint.json"
# How long a rank waits for the other ranks' disks.
_PATIENCE = datetime.timedelta(minutes=30)

Path = str | os.PathLike[str]


def full_state_dict(model: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict of the unsharded model, on every rank; a collective."""
    mesh, cuts = mesh_of(model), cuts_of(model)
    return {name: _gather(tensor, cuts[name], mesh) for name, tensor in _state(model).items()}


def load_full_state_dict(
    model: nn.Module,
    state: Mapping[str, torch.Tensor],
    *,
    patience: datetime.timedelta = _PATIENCE,
) -> None:
    """Loads this rank's pieces from an unsharded state dict; a collective.

    Args:
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: on some rank `state` is another model's, or not a state dict; raised on every
            rank, and nothing is loaded.
    """
    shapes: dict[str, tuple[int, ...]] = {}
    try:
        shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
        error = _of_another_model(model, shapes, "the state dict")
    except Exception as wrong:
        error = ValueError(f"found {type(state).__name__}, expected a state dict: {wrong}")
    agree(f"load {len(shapes)} tensors", error=error, patience=patience)
    _fill(model, lambda name: state[name])


def save(
    model: nn.Module,
    folder: Path,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    extra: Any = None,
    patience: datetime.timedelta = _PATIENCE,
) -> None:
    """Writes each rank's pieces and their manifest into `folder`; a collective.

    The folder must be shared by all ranks, or its files collected afterwards. With data-parallel
    replicas only the first one writes. An earlier checkpoint is replaced once all of the new one
    is written; if saving ends before that, it stays as it was.

    Args:
        optimizer: save its state, too. Each of its values must belong to one value of a
            parameter, as in Adam, or be a single one for the whole parameter.
        extra: plain values that `load` returns, such as the step; rank 0's are saved. The state
            of the mesh's random numbers is always saved.
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: copies of a parameter differ between ranks; raised on every rank.
        ValueError, or errors of torch and the system: a rank cannot write; raised on every rank.
        TimeoutError: a rank did not make this call in time.
    """
    mesh, path = mesh_of(model), pathlib.Path(folder)
    is_first = mesh.data.index == mesh.row == mesh.column == 0
    writes = mesh.data.index == 0
    token = agree(f"save {path.name}: begin", secrets.token_hex(4), patience=patience)
    check_copies(model, mesh)

    def write_pieces() -> None:
        path.mkdir(parents=True, exist_ok=True)
        content: dict[str, Any] = {
            "model": {name: tensor.detach() for name, tensor in _state(model).items()},
            "optimizer": state_of(model, optimizer) if optimizer else {},
        }
        if is_first:
            groups = groups_of(model, optimizer) if optimizer else None
            content |= {"groups": groups, "extra": extra, "batches": mesh.randomness.batches}
        _write(path / _shard(mesh.row, mesh.column, token), lambda file: torch.save(content, file))

    def write_manifest() -> None:
        text = json.dumps(_manifest(model, mesh, token), indent=1)
        _write(path / _MANIFEST, lambda file: file.write(text.encode()))

    # The manifest makes a checkpoint complete, so it comes last.
    steps = (("pieces", writes, write_pieces), ("manifest", is_first, write_manifest))
    for what, is_mine, step in steps:
        error = _error_of(step) if is_mine else None
        try:
            agree(f"save {path.name}: {what}", error=error, patience=patience)
        except BaseException:
            _remove(path, lambda name: token in name)
            raise
    if writes:
        _remove(path, lambda name: token not in name)


def _remove(path: pathlib.Path, unwanted: Callable[[str], bool]) -> None:
    """Removes pieces that no manifest names. Another rank may do the same."""
    for file in path.glob("shard-*"):
        if unwanted(file.name):
            with contextlib.suppress(OSError):
                file.unlink()


def _error_of(step: Callable[[], Any]) -> Exception | None:
    """The exception that `step` raises, of whatever type: the other ranks must get it."""
    try:
        step()
    except Exception as error:
        return error
    return None


def load(
    model: nn.Module,
    folder: Path,
    *,
    optimizer: torch.optim.Optimizer | None = None,
    patience: datetime.timedelta = _PATIENCE,
) -> Any:
    """Loads this rank's pieces of what `save` wrote on a mesh of any shape; a collective.

    A model that was not passed to parallelize() gets all of it, in any process.

    Args:
        optimizer: this model's; it continues from the saved optimizer's state.
        patience: how long to wait for the other ranks.

    Returns:
        The `extra` that was saved.

    Raises:
        ValueError: the folder is not a checkpoint, or is another model's, or lacks the optimizer's
            state; raised on every rank, and nothing is loaded.
        TimeoutError: a rank did not make this call in time.
    """
    path = pathlib.Path(folder)
    mesh: Mesh | None = getattr(model, "atp_mesh", None)
    pieces, error = None, None
    try:
        pieces = _Pieces(path)
        error = _of_another_model(model, pieces.shapes(), str(path))
        if optimizer is not None:
            pieces.check_optimizer(model, optimizer)
    except Exception as wrong:
        error = ValueError(f"{path} cannot be loaded: {wrong}")
    if mesh is not None:
        agree(f"load {path.name}", error=error, patience=patience)
    elif error:
        raise error
    assert pieces is not None
    _fill(model, pieces.whole)
    if optimizer is not None:
        fill_optimizer(model, optimizer, pieces.groups(), pieces.whole_state, _place_of(model))
    if mesh is not None:
        mesh.randomness.batches = pieces.batches()
    return pieces.extra()


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    """This rank's pieces; tensors that share memory are one.

    Raises:
        ValueError: FSDP has sharded them further.
    """
    state = model.state_dict(keep_vars=True)
    pieces: dict[torch.Tensor, torch.Tensor] = {}
    for name, tensor in state.items():
        if is_cut_further(tensor):
            raise ValueError(
                f"{name}: fully_shard() has sharded it over the replicas; save and load it with "
                "torch.distributed.checkpoint"
            )
        if tensor not in pieces:
            pieces[tensor] = local(tensor.detach())
    return {name: pieces[tensor] for name, tensor in state.items()}


def _place_of(model: nn.Module) -> Placed:
    """A model that is not parallelized is the single piece of a mesh of one rank."""
    mesh: Mesh | None = getattr(model, "atp_mesh", None)
    return Placed() if mesh is None else Placed(mesh.shape, mesh.row, mesh.column)


def _full_shapes(model: nn.Module) -> dict[str, tuple[int, ...]]:
    cuts, shape = cuts_of(model), _place_of(model).shape
    return {name: cuts[name].full_shape(t.shape, shape) for name, t in _state(model).items()}


def _gather(tensor: torch.Tensor, cut: Cut, mesh: Mesh) -> torch.Tensor:
    piece = tensor.detach()
    full = piece.new_empty(cut.full_shape(piece.shape, mesh.shape))
    of_row = mesh.second.all_gather(piece).land() if cut.axis2 is not None else piece.unsqueeze(0)
    if cut.axis1 is None:
        return cut.assemble(full, mesh.shape, lambda row, column: of_row[column])
    # Every row sends as much as the first, which has the most.
    axis, longest = 1 + cut.axis1, cut.length_of_row(full.shape, mesh.shape[0], 0)
    own = of_row.shape[axis]
    padded = of_row.new_zeros(*of_row.shape[:axis], longest, *of_row.shape[axis + 1 :])
    padded.narrow(axis, 0, own).copy_(of_row)
    every = mesh.first.all_gather(padded).land()

    def piece_of(row: int, column: int) -> torch.Tensor:
        length = cut.length_of_row(full.shape, mesh.shape[0], row)
        return every[row][column].narrow(axis - 1, 0, length)

    return cut.assemble(full, mesh.shape, piece_of)


def _fill(model: nn.Module, whole: Callable[[str], torch.Tensor]) -> None:
    place, cuts = _place_of(model), cuts_of(model)
    done = set()
    with torch.no_grad():
        for name, tensor in _state(model).items():
            if id(tensor) not in done:  # shared tensors only once
                tensor.copy_(place.take(whole(name), cuts[name]))
                done.add(id(tensor))


def _of_another_model(model: nn.Module, found: Mapping[str, Any], source: str) -> ValueError | None:
    """The error if these shapes are not the model's, else None."""
    expected = _full_shapes(model)
    wrong = [
        f"{name} is {found.get(name, 'missing')}, expected {expected.get(name, 'none')}"
        for name in sorted(expected.keys() | found.keys())
        if found.get(name) != expected.get(name)
    ]
    if not wrong:
        return None
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return ValueError(f"{source} belongs to another model: {'; '.join(wrong[:3])}{more}")


def _write(path: pathlib.Path, how: Callable[[Any], Any]) -> None:
    """Writes the file completely or not at all, and to the disk before anything names it."""
    unfinished = path.with_suffix(path.suffix + ".part")
    try:
        with open(unfinished, "wb") as file:
            how(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


def _shard(row: int, column: int, token: str) -> str:
    return f"shard-{row}-{column}-{token}.pt"


def _manifest(model: nn.Module, mesh: Mesh, token: str) -> dict[str, Any]:
    cuts, shapes = cuts_of(model), _full_shapes(model)
    state = {name: _entry(cut, shapes[name]) for name, cut in cuts.items()}
    return {"format": _FORMAT, "mesh": list(mesh.shape), "pieces": token, "state": state}


def _entry(cut: Cut, shape: tuple[int, ...]) -> dict[str, Any]:
    parts = [[part.size, part.pieces] for part in cut.parts]
    return {
        "shape": list(shape),
        "axis1": cut.axis1,
        "axis2": cut.axis2,
        "parts": parts,
    }


@contextlib.contextmanager
def _reading(file: str) -> Iterator[None]:
    """Puts the file's name into any error about it, on one line: torch's messages have many."""
    try:
        yield
    except Exception as wrong:
        first = str(wrong).partition("\n")[0]
        what = f"it has no {first}" if isinstance(wrong, KeyError) else first
        raise ValueError(f"{file}: {what}") from wrong


def _read_manifest(path: pathlib.Path) -> dict[str, Any]:
    manifest = json.loads((path / _MANIFEST).read_text())
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ValueError(f"its format is not {_FORMAT!r}")
    _, (rows, columns), token = manifest["state"], manifest["mesh"], manifest["pieces"]
    names = [_shard(row, column, token) for row in range(rows) for column in range(columns)]
    missing = [name for name in names if not (path / name).exists()]
    if missing:
        raise ValueError(f"missing from mesh ({rows},{columns}): {', '.join(missing)}")
    return manifest


class _Pieces:
    """The files of a checkpoint; only the requested parts are read."""

    def __init__(self, path: pathlib.Path):
        with _reading(_MANIFEST):
            manifest = _read_manifest(path)
            self._state = manifest["state"]
            self._shapes = {name: tuple(entry["shape"]) for name, entry in self._state.items()}
            token = manifest["pieces"]
        self._shape = rows, columns = tuple(manifest["mesh"])
        self._files = {
            (row, column): self._open(path / _shard(row, column, token))
            for row in range(rows)
            for column in range(columns)
        }

    def _open(self, file: pathlib.Path) -> dict[str, Any]:
        with _reading(file.name):
            if not zipfile.is_zipfile(file):
                raise ValueError("it is truncated, or was not written by save()")
            content = torch.load(file, mmap=True, weights_only=True, map_location="cpu")
            for name in self._state:
                content["model"][name]
            content["optimizer"]
            return content

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def whole(self, name: str) -> torch.Tensor:
        return self._assembled(name, lambda content: content["model"][name])

    def whole_state(self, name: str) -> dict[str, Any]:
        """The optimizer's state of a parameter."""
        of_first = self._files[0, 0]["optimizer"].get(name, {})
        piece = self._files[0, 0]["model"][name]
        return {
            key: self._assembled(name, lambda content, key=key: content["optimizer"][name][key])
            if isinstance(value, torch.Tensor) and value.shape == piece.shape
            else value
            for key, value in of_first.items()
        }

    def _assembled(self, name: str, of: Callable[[dict[str, Any]], torch.Tensor]) -> torch.Tensor:
        entry = self._state[name]
        parts = tuple(Part(size, pieces) for size, pieces in entry["parts"])
        cut = Cut(entry["axis1"], entry["axis2"], parts)
        full = of(self._files[0, 0]).new_empty(entry["shape"])
        return cut.assemble(full, self._shape, lambda row, column: of(self._files[row, column]))

    def groups(self) -> list[dict[str, Any]]:
        return self._files[0, 0]["groups"]

    def check_optimizer(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Raises ValueError if `optimizer` does not match the saved one."""
        if not self._files[0, 0]["groups"]:
            raise ValueError("it has no optimizer state")
        found = [group["parameters"] for group in self.groups()]
        expected = [group["parameters"] for group in groups_of(model, optimizer)]
        if found != expected:
            raise ValueError("its optimizer has different groups of parameters")

    def extra(self) -> Any:
        return self._files[0, 0].get("extra")

    def batches(self) -> int:
        return self._files[0, 0]["batches"]
