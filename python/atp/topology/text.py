"""Errors, numbers and quantities, as the planner's own readers (atp/config/text) have them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NoReturn

# C0, DEL and C1, separators of lines, and what turns the direction of a line.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_NO_TEXT = re.compile("[\ud800-\udfff\ufffe\uffff]")  # files are decoded with surrogateescape
_LONGEST = 60
_UNITS = {
    **{"kB/s": 1e3, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "MiB/s": 2.0**20, "GiB/s": 2.0**30},
    **{"kbit/s": 1e3 / 8, "Mbit/s": 1e6 / 8, "Gbit/s": 1e9 / 8, "Tbit/s": 1e12 / 8, "B/s": 1.0},
}
LEAST_BANDWIDTH, MOST_BANDWIDTH = 1.0, 1e18  # bytes per second that a cluster file may have


class FileError(ValueError):
    """What is wrong, and where, in one plain line."""

    def __init__(self, where: str, problem: str) -> None:
        super().__init__(made_plain(f"{where}: {problem}" if where else problem))


def place(file: str, line: int = 0, key: str = "") -> str:
    """As in "topo.xml:7: pci.busid"; line 0 and no key mean the whole."""
    return file + (f":{line}" if line else "") + (f": {key}" if key else "")


def refuse(where: str, found: str, expected: str, advice: str = "") -> NoReturn:
    raise FileError(
        where, f"found {found}, expected {expected}" + (f"; {advice}" if advice else "")
    )


def is_plain(text: str) -> bool:
    """Whether it is safe to show: no control characters, nothing but text."""
    return not (_CONTROL.search(text) or _NO_TEXT.search(text))


def made_plain(text: str) -> str:
    return _NO_TEXT.sub("?", _CONTROL.sub(" ", text))


def shown(text: str) -> str:
    """A value in a message: quoted, truncated and plain."""
    dots = "..." if len(text) > _LONGEST else ""
    return f'"{made_plain(text[:_LONGEST])}{dots}"'


def listed(names: Sequence[str]) -> str:
    """ "a, b or c" """
    return " or ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def integer(text: str) -> int | None:
    return int(text) if re.fullmatch("[+-]?[0-9]{1,18}", text) else None


def number(text: str) -> float | None:
    """A finite one, whatever the locale."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def count_text(least: int, most: int) -> str:
    return f"a whole number from {least} to {most}"


def parse_bandwidth(where: str, text: str) -> float:
    """Bytes per second in one direction. A unit or a direction that is not clear is refused."""

    def wrong(found: str, advice: str) -> NoReturn:
        example = '"200 Gbit/s per direction" or "600 GB/s both directions"'
        refuse(where, found, f"a bandwidth such as {example}", advice)

    words = re.fullmatch(
        r"[ \t]*([-+.0-9]+(?:[eE][-+0-9]+)?)[ \t]*([^ \t]*)[ \t]*(.*?)[ \t]*", text, re.DOTALL
    )
    value = number(words[1]) if words else None
    if words is None or value is None:
        wrong(shown(text), "start with a number")
    count, unit, direction = words.groups()
    if value <= 0:
        wrong(f"the bandwidth {shown(text)}", "write one above 0")
    if not unit:
        bits, rest = f'"{count} Gbit/s per direction"', f'"{count} GB/s per direction"'
        wrong(f"{shown(text)} without a unit", f"write {bits} for bits or {rest} for bytes")
    if unit not in _UNITS:
        wrong(*_about_unit(count, unit))
    if not direction:
        each, both = f'"{count} {unit} per direction"', f'"{count} {unit} both directions"'
        advice = (
            f"write {each} if each direction carries that much, {both} if it is the sum of both"
        )
        wrong(f"{shown(text)} without a direction", advice)
    if direction not in ("per direction", "both directions"):
        advice = 'write "per direction" or "both directions"'
        wrong(f"the direction {shown(direction)}", advice)
    value *= _UNITS[unit] / (1 if direction == "per direction" else 2)
    if not LEAST_BANDWIDTH <= value <= MOST_BANDWIDTH:
        wrong(f"the bandwidth {shown(text)}", "write one from 1 B/s to 1000000 TB/s")
    return value


def _about_unit(count: str, unit: str) -> tuple[str, str]:
    """Some units tell bits from bytes only by the case of a letter, or not at all: Gb/s, GBps."""
    vague = re.fullmatch("([kmgt]?)(b/s|bps|b|bit|bits/s|bit/s)", unit, re.IGNORECASE | re.ASCII)
    if not vague:
        return f"the unknown unit {shown(unit)}", f"the units are {listed(list(_UNITS))}"
    prefix = (vague[1].upper() or "M").replace("K", "k")
    bits, rest = f'"{count} {prefix}bit/s ..."', f'"{count} {prefix}B/s ..."'
    advice = f"write {bits} for bits or {rest} for bytes"
    return f"the unit {shown(unit)}, which may mean bits or bytes", advice


def _with_unit(value: float, units: Sequence[tuple[str, float]]) -> str:
    """At most fifteen digits, so that 5e-6 / 1e-6 is 5."""
    name, factor = [units[0], *(one for one in units if value >= one[1])][-1]
    return f"{value / factor:.15g} {name}"


def bandwidth_text(bytes_per_second: float) -> str:
    return _with_unit(bytes_per_second, list(_UNITS.items())[:4]) + " per direction"


def duration_text(seconds: float) -> str:
    return _with_unit(seconds, [("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3), ("s", 1.0)])
