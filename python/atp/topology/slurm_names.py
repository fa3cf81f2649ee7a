"""Slurm's notation for lists of names: tux[0-3,08-11],login1."""

from __future__ import annotations

import itertools
import re

from atp.topology.text import is_plain, refuse, shown

MAX_NAMES = 65536  # in one list
_EXPECTED = "names such as tux[0-3,08-11],login1"
_PART = re.compile(r"(?:[^\[\],]+|\[[^\[\]]*\])+")  # up to a comma outside of brackets


def names_of(text: str, where: str) -> list[str]:
    names: list[str] = []
    start = 0
    while start <= len(text):
        part = _PART.match(text, start)
        if part is None or text[part.end() : part.end() + 1] not in ("", ","):
            refuse(where, shown(text[start:].partition(",")[0]), _EXPECTED)
        start = part.end() + 1
        names += _combined(part[0], where)
        if len(names) > MAX_NAMES:
            refuse(where, f"{len(names)} names", f"at most {MAX_NAMES}")
    return names


def _combined(part: str, where: str) -> list[str]:
    """All combinations of a part's brackets."""
    if not is_plain(part):
        refuse(where, shown(part), _EXPECTED)
    choices = []
    count = 1
    for brackets, word in re.findall(r"\[([^\]]*)\]|([^\[]+)", part):
        choices.append([word] if word else _numbers(brackets, where))
        count *= len(choices[-1])
        if count > MAX_NAMES:
            refuse(where, shown(part), f"at most {MAX_NAMES} names")
    return ["".join(words) for words in itertools.product(*choices)]


def _numbers(text: str, where: str) -> list[str]:
    """Those of "0-3,08-11", with their leading zeros."""
    numbers: list[str] = []
    for part in text.split(","):
        ends = re.fullmatch("([0-9]{1,9})(?:-([0-9]{1,9}))?", part)
        if not ends:
            refuse(where, shown(part), _EXPECTED)
        first, last = int(ends[1]), int(ends[2] or ends[1])
        if not 0 <= last - first < MAX_NAMES:
            refuse(where, shown(part), f"an ascending range of at most {MAX_NAMES} numbers")
        numbers += [str(number).zfill(len(ends[1])) for number in range(first, last + 1)]
        if len(numbers) > MAX_NAMES:
            refuse(where, shown(text), f"at most {MAX_NAMES} names")
    return numbers
