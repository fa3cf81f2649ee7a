"""Measurements in a cluster file: the `measured` section, written anew, all else as it was."""

import os
import pathlib
import re
from collections.abc import Mapping

from atp.planner import plan

__all__ = ["Bandwidths", "require_cluster", "with_measurements", "write_measurements"]

Bandwidths = Mapping[tuple[int, int], tuple[float | None, float | None]]
"""By mesh: bytes a second of dimensions 1 and 2, None of one rank."""

# A key of the outermost level, and all lines up to the next one. Comments before that stay with it.
_SECTION = re.compile(r"^measured:.*\n?(?:(?:[ \t].*|-.*|)(?:\n|\Z))*", re.MULTILINE)


def require_cluster(path: str | os.PathLike[str], ranks: int) -> None:
    """Refuses a file that measurements of so many ranks cannot be written into.

    Raises:
        ValueError: the planner cannot read it, or it describes another number of devices.
        OSError: it cannot be written.
    """
    # The file is what is asked about, so the model is one that every mesh can run.
    model = {"model_type": "gpt2", "n_embd": 8 * ranks, "n_head": ranks, "n_layer": 1}
    plan(path, model | {"vocab_size": ranks}, ranks)
    open(path, "r+").close()


def with_measurements(text: str, bandwidths: Bandwidths) -> str:
    """The text of a cluster file with these measurements in place of those that it has."""
    rest = _SECTION.sub("", text).rstrip("\n")
    lines = [_line(mesh, both) for mesh, both in sorted(bandwidths.items(), reverse=True)]
    return "\n".join([rest, "measured:  # by atp plan calibrate", *lines]) + "\n"


def write_measurements(path: str | os.PathLike[str], bandwidths: Bandwidths) -> None:
    """Writes them into the file, which is replaced as a whole or not at all."""
    file = pathlib.Path(path)
    unfinished = file.with_suffix(file.suffix + ".part")
    # A comment may be in any encoding; what is not ours is written as it was.
    text = file.read_text("utf-8", "surrogateescape")
    unfinished.write_text(with_measurements(text, bandwidths), "utf-8", "surrogateescape")
    os.replace(unfinished, file)


def _line(mesh: tuple[int, int], both: tuple[float | None, float | None]) -> str:
    parts = [f"mesh: [{mesh[0]}, {mesh[1]}]"]
    for number, bandwidth in enumerate(both, 1):
        if bandwidth is not None:
            parts.append(f"dimension{number}: {bandwidth / 1e6:.6g} MB/s")
    return f"  - {{{', '.join(parts)}}}"
