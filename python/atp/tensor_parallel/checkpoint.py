"""Checkpoints: saved from one mesh, loaded on any other, or from and to an unsharded state dict."""

import contextlib
import datetime
import json
import os
import pathlib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import nn

from atp.tensor_parallel.agreement import agree
from atp.tensor_parallel.mesh import Mesh
from atp.tensor_parallel.parallelize import mesh_of
from atp.tensor_parallel.sharding import Cut, Part, cut_of

__all__ = ["full_state_dict", "load", "load_full_state_dict", "save"]

_FORMAT = "atp tensor parallel checkpoint 1"
_MANIFEST = "checkpoint.json"
# How long a rank waits for the disks of the others.
_PATIENCE = datetime.timedelta(minutes=30)

Path = str | os.PathLike[str]


def full_state_dict(model: nn.Module) -> dict[str, torch.Tensor]:
    """The state dict that the model would have unsharded, at every rank; a collective."""
    mesh = mesh_of(model)
    return {name: _gather(tensor, mesh) for name, tensor in _state(model).items()}


def load_full_state_dict(
    model: nn.Module,
    state: Mapping[str, torch.Tensor],
    *,
    patience: datetime.timedelta = _PATIENCE,
) -> None:
    """Takes the rank's pieces from an unsharded state dict; a collective.

    Args:
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: it is another model's, at some rank; at every rank, and nothing was loaded.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    error = _of_another_model(model, shapes, "the state dict")
    agree(f"load {len(shapes)} tensors", error=error, patience=patience)
    _fill(model, lambda name: state[name])


def save(model: nn.Module, folder: Path, *, patience: datetime.timedelta = _PATIENCE) -> None:
    """Writes each rank's pieces, and what they are, into `folder`; a collective.

    The folder must be the same for all ranks, or be put together afterwards. Of data-parallel
    replicas the first one writes. A checkpoint that is there already is replaced; if that ends
    early there is none, rather than a mixture.

    Args:
        patience: how long to wait for the other ranks.

    Raises:
        ValueError, or what torch and the system raise: some rank cannot write; at every rank.
        TimeoutError: a rank did not come.
    """
    mesh, path = mesh_of(model), pathlib.Path(folder)
    is_first = mesh.data.index == mesh.row == mesh.column == 0

    def write_pieces() -> None:
        path.mkdir(parents=True, exist_ok=True)
        pieces = {name: tensor.detach() for name, tensor in _state(model).items()}
        _write(path / _shard(mesh.row, mesh.column), lambda to: torch.save(pieces, to))

    def write_manifest() -> None:
        text = json.dumps(_manifest(model, mesh), indent=1)
        _write(path / _MANIFEST, lambda to: to.write_text(text))

    # With its manifest a checkpoint is whole: the old one goes first, the new one comes last.
    steps = (
        ("begin", is_first, lambda: (path / _MANIFEST).unlink(missing_ok=True)),
        ("pieces", mesh.data.index == 0, write_pieces),
        ("manifest", is_first, write_manifest),
    )
    for what, is_mine, step in steps:
        error = _error_of(step) if is_mine else None
        agree(f"save {path.name}: {what}", error=error, patience=patience)


def _error_of(step: Callable[[], Any]) -> Exception | None:
    """What it raises, whatever that is: the other ranks must hear of it."""
    try:
        step()
    except Exception as error:
        return error
    return None


def load(model: nn.Module, folder: Path, *, patience: datetime.timedelta = _PATIENCE) -> None:
    """Takes the rank's pieces from what `save` wrote on a mesh of any shape; a collective.

    Args:
        patience: how long to wait for the other ranks.

    Raises:
        ValueError: it is no checkpoint, or another model's; at every rank, and nothing was loaded.
        TimeoutError: a rank did not come.
    """
    path = pathlib.Path(folder)
    pieces, error = None, None
    try:
        pieces = _Pieces(path)
        error = _of_another_model(model, pieces.shapes(), str(path))
    except Exception as wrong:
        error = ValueError(f"{path} cannot be loaded: {wrong}")
    agree(f"load {path.name}", error=error, patience=patience)
    assert pieces is not None
    _fill(model, pieces.whole)


def _state(model: nn.Module) -> dict[str, torch.Tensor]:
    return model.state_dict(keep_vars=True)


def _full_shape(tensor: torch.Tensor, mesh: Mesh) -> tuple[int, ...]:
    return cut_of(tensor).full_shape(tensor.shape, mesh.shape)


def _gather(tensor: torch.Tensor, mesh: Mesh) -> torch.Tensor:
    piece, cut = tensor.detach(), cut_of(tensor)
    of_row = mesh.second.all_gather(piece).land() if cut.axis2 is not None else piece.unsqueeze(0)
    every = mesh.first.all_gather(of_row).land() if cut.axis1 is not None else of_row.unsqueeze(0)
    full = piece.new_empty(_full_shape(tensor, mesh))
    return cut.assemble(full, mesh.shape, lambda row, column: every[row][column])


def _fill(model: nn.Module, whole: Callable[[str], torch.Tensor]) -> None:
    mesh = mesh_of(model)
    done = set()
    with torch.no_grad():
        for name, tensor in _state(model).items():
            if id(tensor) not in done:  # shared ones once
                own = cut_of(tensor).take(whole(name), mesh.shape, mesh.row, mesh.column)
                tensor.copy_(own)
                done.add(id(tensor))


def _of_another_model(model: nn.Module, found: Mapping[str, Any], source: str) -> ValueError | None:
    """What is wrong with these shapes of tensors, if anything is."""
    mesh = mesh_of(model)
    expected = {name: _full_shape(tensor, mesh) for name, tensor in _state(model).items()}
    wrong = [
        f"{name} is {found.get(name, 'missing')}, expected {expected.get(name, 'none')}"
        for name in sorted(expected.keys() | found.keys())
        if found.get(name) != expected.get(name)
    ]
    if not wrong:
        return None
    more = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    return ValueError(f"{source} is of another model: {'; '.join(wrong[:3])}{more}")


def _write(path: pathlib.Path, how: Callable[[pathlib.Path], Any]) -> None:
    unfinished = path.with_suffix(path.suffix + ".part")
    how(unfinished)
    os.replace(unfinished, path)


def _shard(row: int, column: int) -> str:
    return f"shard-{row}-{column}.pt"


def _manifest(model: nn.Module, mesh: Mesh) -> dict[str, Any]:
    state = {name: _entry(tensor, mesh) for name, tensor in _state(model).items()}
    return {"format": _FORMAT, "mesh": list(mesh.shape), "state": state}


def _entry(tensor: torch.Tensor, mesh: Mesh) -> dict[str, Any]:
    cut = cut_of(tensor)
    parts = [[part.size, part.pieces] for part in cut.parts]
    return {
        "shape": list(_full_shape(tensor, mesh)),
        "axis1": cut.axis1,
        "axis2": cut.axis2,
        "parts": parts,
    }


@contextlib.contextmanager
def _reading(file: str) -> Iterator[None]:
    """Names the file in whatever is wrong with it, in one line: torch's texts have many."""
    try:
        yield
    except Exception as wrong:
        first = str(wrong).partition("\n")[0]
        what = f"it has no {first}" if isinstance(wrong, KeyError) else first
        raise ValueError(f"{file}: {what}") from wrong


def _read_manifest(path: pathlib.Path) -> dict[str, Any]:
    manifest = json.loads((path / _MANIFEST).read_text())
    if not isinstance(manifest, dict) or manifest.get("format") != _FORMAT:
        raise ValueError(f"it does not say {_FORMAT!r}")
    rows, columns = manifest["mesh"]
    names = [_shard(row, column) for row in range(rows) for column in range(columns)]
    missing = [name for name in names if not (path / name).exists()]
    if missing:
        raise ValueError(f"{', '.join(missing)} of mesh ({rows},{columns}) is missing")
    return manifest


class _Pieces:
    """The files of a checkpoint, of which only what is asked for is read."""

    def __init__(self, path: pathlib.Path):
        with _reading(_MANIFEST):
            manifest = _read_manifest(path)
            self._state = manifest["state"]
            self._shapes = {name: tuple(entry["shape"]) for name, entry in self._state.items()}
        self._shape = rows, columns = tuple(manifest["mesh"])
        self._files = {
            (row, column): self._open(path / _shard(row, column))
            for row in range(rows)
            for column in range(columns)
        }

    def _open(self, file: pathlib.Path) -> dict[str, torch.Tensor]:
        with _reading(file.name):
            if not zipfile.is_zipfile(file):
                raise ValueError("it is cut short, or none that save() wrote")
            pieces = torch.load(file, mmap=True, weights_only=True)
            return {name: pieces[name] for name in self._state}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self._shapes

    def whole(self, name: str) -> torch.Tensor:
        entry = self._state[name]
        parts = tuple(Part(size, pieces) for size, pieces in entry["parts"])
        cut = Cut(entry["axis1"], entry["axis2"], parts)
        first = self._files[0, 0][name]
        full = first.new_empty(entry["shape"])
        return cut.assemble(full, self._shape, lambda row, column: self._files[row, column][name])
