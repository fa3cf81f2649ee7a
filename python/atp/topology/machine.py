"""The GPUs of one machine as levels, whichever program has described it.

GPUs connected by one class of links form groups, and these form the groups of the next class, and
so on. If all groups of a class have the same size, this tree becomes levels. A group fully
connected by NVLinks becomes a switch if the machine has an NVSwitch or if a GPU could not have that
many links; otherwise it becomes direct links. Any other machine becomes one level with a matrix of
its pairs: direct links if there are NVLinks (such as the cube of eight V100), else a switch,
because each GPU has one slot.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from atp.topology.cluster import Level, Pairs

# The classes of links, closest first, as nvidia-smi calls them: a bonded set of NVLinks, at most
# one PCIe bridge, several, a host bridge, between host bridges of a NUMA node, between NUMA nodes.
LINKS = NV, PIX, PXB, PHB, NODE, SYS = range(6)
NAMES = ("NV", "PIX", "PXB", "PHB", "NODE", "SYS")
MAX_GPUS = 256
_MAX_NVLINKS = 18  # of a GPU to date (H100 and B200)
_CHILDREN = ("NVLink group", "PCIe switch", "PCIe tree", "host bridge", "NUMA node", "NUMA node")

Gpus = list[int]
Path = tuple[int, int]  # the class of the link, and the number of NVLinks
Group = list[Gpus]  # its parts, which are the groups of the next closer class
Stage = tuple[int, list[Group]]  # a class, and all its groups


@dataclasses.dataclass
class Paths:
    """The paths between a machine's GPUs; bandwidths in bytes per second, per direction."""

    paths: list[list[Path]]
    nvlink: float  # of one NVLink
    # The combined bandwidth from a group to the rest of a whole, whose groups are joined by links
    # of this class; the last argument: NVLink joins the GPUs of the group.
    group_link: Callable[[int, Gpus, Gpus, bool], float]
    pair: Callable[[int, int], float]
    has_nvswitch: bool = False  # known to have one; else the number of NVLinks decides
    numbers: list[int] = dataclasses.field(default_factory=list)  # for CUDA; empty: from 0


@dataclasses.dataclass
class Machine:
    """A machine, or one host of several."""

    source: str  # "the output of nvidia-smi topo -m"
    gpus: int
    levels: list[Level]  # empty if it has a single GPU
    remarks: list[str]
    pairs: Pairs | None = None
    order: str = ""  # CUDA_VISIBLE_DEVICES for the order of the levels; empty: by number
    network: float = 0.0  # of its network cards together; 0: unknown


def machine_of(paths: Paths, source: str, remarks: list[str]) -> Machine:
    gpus = len(paths.paths)
    machine = Machine(source, gpus, [], remarks)
    stages = _stages(paths.paths)
    if not stages:
        return machine
    machine.levels = _levels(paths, stages)
    if not machine.levels:
        _describe_pairs(paths, machine)
        return machine
    order = sum(stages[-1][1][0], [])
    if order != sorted(order):
        numbers = paths.numbers or list(range(gpus))
        machine.order = ",".join(str(numbers[gpu]) for gpu in order)
    return machine


def _stages(paths: list[list[Path]]) -> list[Stage]:
    """Those at which groups grow, closest first."""
    stages: list[Stage] = []
    below = [[gpu] for gpu in range(len(paths))]
    for link in LINKS:
        groups = _merged(paths, below, link)
        if len(groups) < len(below):
            below = [sum(group, []) for group in groups]
            stages.append((link, groups))
    return stages


def _merged(paths: list[list[Path]], below: list[Gpus], link: int) -> list[Group]:
    """Merges groups that are connected by links of this class or a closer one."""
    groups = []
    left = list(range(len(below)))
    while left:
        reached = [left.pop(0)]
        for part in reached:  # which grows
            near = {
                other
                for other in left
                if any(paths[a][b][0] <= link for a in below[part] for b in below[other])
            }
            reached += near
            left = [other for other in left if other not in near]
        groups.append([below[part] for part in sorted(reached)])
    return groups


def _levels(paths: Paths, stages: list[Stage]) -> list[Level]:
    """From top to bottom; empty if the machine is not a tree of equal groups."""
    levels = []
    below = None
    for link, groups in stages:
        sizes = {(len(group), sum(map(len, group))) for group in groups}
        if len(sizes) > 1:
            return []
        ((parts, gpus),) = sizes
        level = Level("gpu" if below is None else _CHILDREN[below], parts)
        if link == NV:
            links = _uniform_nvlinks(paths.paths, groups)
            if links is None:
                return []
            level.kind = _nvlink_kind(paths, gpus, links)
            level.bandwidth = paths.nvlink * links
        else:  # the slowest link counts
            level.bandwidth = min(
                paths.group_link(link, part, sum(group, []), below == NV)
                for group in groups
                for part in group
            )
        levels.insert(0, level)
        below = link
    return levels


def _uniform_nvlinks(paths: list[list[Path]], groups: list[Group]) -> int | None:
    """The number of NVLinks per pair of GPUs, if it is the same for all pairs in all groups."""
    wholes = [sum(group, []) for group in groups]
    found = {paths[a][b] for whole in wholes for a in whole for b in whole if a != b}
    ((link, nvlinks), *others) = found
    return nvlinks if link == NV and not others else None


def _nvlink_kind(paths: Paths, gpus: int, links: int) -> str:
    if gpus == 2:
        return "pairs"
    is_direct = not paths.has_nvswitch and (gpus - 1) * links <= _MAX_NVLINKS
    return "full" if is_direct else "switch"


def _describe_pairs(paths: Paths, machine: Machine) -> None:
    every = range(machine.gpus)
    machine.pairs = [[0.0 if a == b else paths.pair(a, b) for b in every] for a in every]
    has_nvlink = any(paths.paths[a][b][0] == NV for a in every for b in every if a != b)
    kind = "full" if has_nvlink else "switch"
    machine.levels = [Level("gpu", machine.gpus, kind, max(map(max, machine.pairs)))]
    machine.remarks.append(
        "The GPUs do not form a tree of equal groups, so each pair is described separately."
    )
    if not has_nvlink:
        machine.remarks.append(
            "Each GPU has one slot. Links that pairs between sockets share are not modelled."
        )
