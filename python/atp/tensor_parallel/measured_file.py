"""Measurements in a cluster file: rewrites the `measured` section, and leaves the rest as it is."""

import dataclasses
import os
import pathlib
import re
from collections.abc import Mapping

from atp.planner import plan

__all__ = [
    "Device",
    "Dimensions",
    "Measurements",
    "Rate",
    "require_cluster",
    "with_measurements",
    "write_measurements",
]


@dataclasses.dataclass(frozen=True)
class Rate:
    """The time of a collective: a rank's tensor over `bandwidth` (bytes/s), plus `latency` (s)."""

    bandwidth: float
    latency: float


Dimensions = tuple[Mapping[str, Rate] | None, Mapping[str, Rate] | None]
"""Rates on dimensions 1 and 2 by collective (all_reduce, reduce_scatter, all_gather); None for a
dimension of one rank."""


@dataclasses.dataclass(frozen=True)
class Device:
    """A rank's speed: floating-point operations per second in matrix products, and the bytes of
    memory per second that all other operations read or write."""

    products: float
    memory: float


@dataclasses.dataclass(frozen=True)
class Measurements:
    """The measurements of one algorithm, by mesh."""

    algorithm: str
    meshes: Mapping[tuple[int, int], Dimensions]
    device: Device | None = None


# An outermost key, and all lines up to the next one, or up to the comments just before that.
_SECTION = r"^{}:.*\n?(?:(?:[ \t].*|-.*|)(?:\n|\Z))*"
_MEASURED = re.compile(_SECTION.format("measured"), re.MULTILINE)
_DEVICE = re.compile(_SECTION.format("device"), re.MULTILINE)
# The start of a measurement, and the algorithm that it names.
_ENTRY = re.compile(r"^( *)- ", re.MULTILINE)
_ALGORITHM = re.compile(r"""\balgorithm: *["']?(\w+)""")


def require_cluster(path: str | os.PathLike[str], ranks: int) -> None:
    """Refuses a file that cannot take measurements of `ranks` ranks.

    Raises:
        ValueError: the planner cannot read it, or it describes a different number of devices, or
            its measurements do not each start a line.
        OSError: it cannot be written.
    """
    # Only the file is in question, so the model is one that every mesh can run.
    model = {"model_type": "gpt2", "n_embd": 8 * ranks, "n_head": ranks, "n_layer": 1}
    plan(path, model | {"vocab_size": ranks}, ranks)
    with open(path, "r+", encoding="utf-8", errors="surrogateescape") as file:
        _entries(file.read())


def with_measurements(text: str, found: Measurements) -> str:
    """The text of a cluster file with these measurements instead of its earlier ones of the same
    algorithm or of none. Measurements of other algorithms stay as they are written."""
    name = found.algorithm
    lines = [entry for entry in _entries(text) if _algorithm_of(entry) not in (name, None)]
    lines += [_line(mesh, name, both) for mesh, both in sorted(found.meshes.items(), reverse=True)]
    sections = ["measured:  # by atp plan calibrate", *lines]
    rest = _MEASURED.sub("", text)
    if found.device is not None:
        rest = _DEVICE.sub("", rest)
        sections.append(
            f"device: {{products: {found.device.products / 1e9:.6g} GFLOP/s, "
            f"memory: {found.device.memory / 1e6:.6g} MB/s}}  # by atp plan calibrate"
        )
    return "\n".join([rest.rstrip("\n"), *sections]) + "\n"


def write_measurements(path: str | os.PathLike[str], found: Measurements) -> None:
    """Writes the measurements into the file, which is replaced completely or not at all."""
    file = pathlib.Path(path)
    unfinished = file.with_suffix(file.suffix + ".part")
    # A comment may be in any encoding; everything not ours is written back unchanged.
    text = file.read_text("utf-8", "surrogateescape")
    unfinished.write_text(with_measurements(text, found), "utf-8", "surrogateescape")
    os.replace(unfinished, file)


def _entries(text: str) -> list[str]:
    """The measurements in a cluster file, each as it is written, at our indentation.

    Raises:
        ValueError: they do not each start a line, so they cannot be separated.
    """
    section = _MEASURED.search(text)
    if section is None:
        return []
    first = _ENTRY.search(section.group())
    if first is None:
        if re.fullmatch(r"measured: *(\[ *\])? *(#.*)?", section.group().strip()):
            return []
        raise ValueError(
            "measured: found measurements on one line, expected each to start a line of its own "
            "with '- '; otherwise those of other algorithms would be lost"
        )
    margin = len(first.group(1))
    entries: list[list[str]] = []
    for line in section.group()[first.start() :].splitlines():
        if line.startswith(" " * margin + "- "):
            entries.append([])
        if line.strip():
            entries[-1].append("  " + line[min(margin, len(line) - len(line.lstrip())) :])
    return ["\n".join(lines) for lines in entries]


def _algorithm_of(entry: str) -> str | None:
    said = (_ALGORITHM.search(line.split(" #")[0]) for line in entry.splitlines())
    return next((match.group(1) for match in said if match), None)


def _line(mesh: tuple[int, int], algorithm: str, both: Dimensions) -> str:
    parts = [f"mesh: [{mesh[0]}, {mesh[1]}]", f"algorithm: {algorithm}"]
    for number, rates in enumerate(both, 1):
        if rates is not None:
            each = ", ".join(f"{name}: {_rate(rate)}" for name, rate in rates.items())
            parts.append(f"dimension{number}: {{{each}}}")
    return f"  - {{{', '.join(parts)}}}"


def _rate(rate: Rate) -> str:
    bandwidth = f"{rate.bandwidth / 1e6:.6g} MB/s"
    return f"{{bandwidth: {bandwidth}, latency: {rate.latency * 1e6:.1f} us}}"
