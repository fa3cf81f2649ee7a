"""A network description of ASTRA-sim (analytical backend).

    topology: [ Ring, Switch ]      innermost dimension first; Ring, FullyConnected or Switch
    npus_count: [ 4, 8 ]
    bandwidth: [ 200.0, 50.0 ]      GB/s of one link, per direction
    latency: [ 500.0, 2000.0 ]      ns

There every NPU has its own links in every dimension. Here an upper level's link belongs to a whole
child, so it gets the bandwidth of all the child's NPUs together. Rings of rings become a torus,
which is equivalent. Of YAML it reads what such files use: four lists in brackets.
"""

from __future__ import annotations

import difflib
import itertools
import re

from atp.topology.cluster import MAX_DEVICES, Cluster, Level, base_name
from atp.topology.text import FileError, count_text, integer, listed, number, place, refuse, shown

_KEYS = ("topology", "npus_count", "bandwidth", "latency")
_KINDS = {"Ring": "ring", "FullyConnected": "full", "Switch": "switch"}
_LIST = "a list with one entry per dimension"
_GIGABYTE = 2.0**30  # in ASTRA-sim's analytical network
_ENTRY = re.compile(r"([^\s:\[\]{},]+) *:\s+\[([^\[\]{}:]*)\] *(?:\n|\Z)", re.ASCII)
Entry = tuple[str, str]  # its place and its text


def read(text: str, file: str) -> Cluster:
    lists = _lists(text, file)
    sizes = [len(entries) for _, entries in lists.values()]
    for where, entries in lists.values():
        if not entries or len(entries) != sizes[0]:
            expected = f"{sizes[0]}, one per entry of topology" if sizes[0] else "one per dimension"
            refuse(where, f"{len(entries)} entries", expected)
    levels: list[Level] = []
    inside = 1
    columns = zip(*(lists[key][1] for key in _KEYS))  # noqa: B905
    for at, (kind, npus, bandwidth, latency) in enumerate(columns):
        name = f"group of dimension {at}" if at else "npu"
        level = Level(name, _count(npus), _kind(kind), _bandwidth(bandwidth) * inside)
        level.latency = _latency(latency)
        levels.append(level)
        inside *= level.count
        if inside > MAX_DEVICES:
            found = f"{inside} NPUs up to this dimension"
            refuse(npus[0], found, f"at most {MAX_DEVICES}")
    _make_torus(levels)
    remarks = [
        f"Imported from the ASTRA-sim network {file}.",
        "GB/s means 2^30 bytes per second, per link and direction, as in ASTRA-sim's analytical "
        "network.",
    ]
    if len(levels) > 1:
        remarks += [
            "ASTRA-sim gives every NPU its own links in each dimension. Here a link of an upper "
            "level",
            "has the combined bandwidth of the links of all NPUs below it.",
        ]
    return Cluster(base_name(file), levels[::-1], remarks).check(file)


def _lists(text: str, file: str) -> dict[str, tuple[str, list[Entry]]]:
    """By key: its place and its entries."""
    text = text.removeprefix("\ufeff").replace("\t", " ").replace("\r", "")
    text = re.sub(r"(?m)(?:^|(?<= ))#[^\n]*", "", text)  # comments
    text = re.sub(r"\A(\s*)---", r"\1", text)
    found: dict[str, tuple[str, list[Entry]]] = {}
    at, line = 0, 1
    while rest := text[at:].lstrip(" \n"):
        line += text.count("\n", at, len(text) - len(rest))
        at = len(text) - len(rest)
        entry = _ENTRY.match(text, at)
        if not entry:
            refuse(place(file, line), shown(rest.split("\n")[0]), "KEY: [VALUE, ...]")
        key = entry[1]
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, 1)
            advice = f"did you mean {near[0]}?" if near else f"use {listed(_KEYS)}"
            raise FileError(place(file, line, shown(key)), f"unknown key; {advice}")
        if key in found:
            raise FileError(place(file, line, key), "duplicate key; remove one of the two")
        found[key] = place(file, line, key), _entries(entry, file, line)
        line += entry[0].count("\n")
        at = entry.end()
    for key in _KEYS:
        if key not in found:
            raise FileError(place(file, 1, key), f"is missing, expected {_LIST}; add it")
    return {key: found[key] for key in _KEYS}


def _entries(entry: re.Match[str], file: str, line: int) -> list[Entry]:
    line += entry[0].count("\n", 0, entry.start(2) - entry.start())
    entries = []
    for one in entry[2].split(","):
        blank = len(one) - len(one.lstrip(" \n"))
        where = place(file, line + one.count("\n", 0, blank), f"{entry[1]}[{len(entries)}]")
        entries.append((where, one.strip(" \n")))
        line += one.count("\n")
    if not entries[-1][1]:
        entries.pop()  # a comma may follow the last one
    return entries


def _kind(entry: Entry) -> str:
    where, text = entry
    name = re.sub("""^(["'])(.*)\\1$""", r"\2", text)
    if name not in _KINDS:
        near = difflib.get_close_matches(name, _KINDS, 1)
        advice = f"did you mean {near[0]}?" if near else ""
        refuse(where, shown(name), listed(list(_KINDS)), advice)
    return _KINDS[name]


def _count(entry: Entry) -> int:
    value = integer(entry[1])
    if value is None or not 1 <= value <= MAX_DEVICES:
        refuse(entry[0], shown(entry[1]), count_text(1, MAX_DEVICES))
    return value


def _bandwidth(entry: Entry) -> float:
    value = number(entry[1])
    if value is None or value <= 0 or value * _GIGABYTE > 1e18:
        refuse(entry[0], shown(entry[1]), "GB/s above 0")
    return value * _GIGABYTE


def _latency(entry: Entry) -> float:
    value = number(entry[1])
    if value is None or not 0 <= value <= 1e12:
        refuse(entry[0], shown(entry[1]), "nanoseconds, 0 or more")
    return value * 1e-9


def _make_torus(innermost_first: list[Level]) -> None:
    """Rings from the innermost dimension on are the axes of a torus.

    A torus level has the bandwidth of one device's link, every other level that of a whole child's.
    """
    rings = list(itertools.takewhile(lambda level: level.kind == "ring", innermost_first))
    inside = 1
    for level in rings if len(rings) > 1 else []:
        level.kind = "torus"
        level.bandwidth /= inside
        inside *= level.count
