"""The tree by which a machine's GPUs reach each other without NVLink.

NUMA nodes, below them PCIe switches, below them GPUs. Unlike the classes of `nvidia-smi topo -m` it
shows which links are shared.
"""

from __future__ import annotations

import collections
import dataclasses

from atp.topology.machine import PHB, PIX, PXB, SYS, Gpus

MACHINE, NUMA_NODE, PCIE = "machine", "NUMA node", "PCIe"


@dataclasses.dataclass
class _Node:
    kind: str
    uplink: float  # bytes per second, per direction
    chain: list[int]  # its parents from the top, and itself
    gpus: int = 0  # below it


class PcieTree:
    """Nodes are numbered, parents first; the machine is node 0. A GPU is the node of its slot."""

    def __init__(self) -> None:
        self._nodes = [_Node(MACHINE, 0.0, [0])]
        self._slots: list[list[int]] = []  # the chains of the GPUs

    def add(self, parent: int, kind: str, uplink: float) -> int:
        chain = [*self._nodes[parent].chain, len(self._nodes)]
        self._nodes.append(_Node(kind, uplink, chain))
        return chain[-1]

    def add_gpu(self, parent: int, uplink: float) -> int:
        """Its number: GPUs count from 0."""
        chain = self._nodes[self.add(parent, PCIE, uplink)].chain
        for node in chain:
            self._nodes[node].gpus += 1
        self._slots.append(chain)
        return len(self._slots) - 1

    def _meeting_depth(self, a: int, b: int) -> int:
        """How many nodes their chains share."""
        ours, theirs = self._slots[a], self._slots[b]
        depth = 0
        while depth < min(len(ours), len(theirs)) and ours[depth] == theirs[depth]:
            depth += 1
        return depth

    def link(self, a: int, b: int) -> int:
        """PIX, PXB, PHB or SYS, as nvidia-smi calls them."""
        depth = self._meeting_depth(a, b)
        kind = self._nodes[self._slots[a][depth - 1]].kind
        if kind != PCIE:
            return SYS if kind == MACHINE else PHB
        # If there is one switch between them, each slot is one level below it.
        levels = len(self._slots[a]) + len(self._slots[b]) - 2 * depth
        return PIX if levels <= 2 else PXB

    def pair(self, a: int, b: int) -> float:
        """The narrowest link between two GPUs."""
        depth = self._meeting_depth(a, b)
        between = self._slots[a][depth:] + self._slots[b][depth:]
        return min(self._nodes[node].uplink for node in between)

    def _counts(self, group: Gpus) -> collections.Counter[int]:
        return collections.Counter(node for gpu in group for node in self._slots[gpu])

    def group_link(self, group: Gpus, whole: Gpus) -> float:
        """The combined bandwidth from `group` to the rest of `whole`.

        A link that other GPUs share counts in proportion.
        """
        top = max(node for node, count in self._counts(whole).items() if count == len(whole))
        below: collections.defaultdict[int, float] = collections.defaultdict(float)
        for number, count in sorted(self._counts(group).items(), reverse=True):
            if number > top:
                node = self._nodes[number]
                share = node.uplink * count / node.gpus
                below[node.chain[-2]] += min(share, below.get(number, share))
        return below[top]
