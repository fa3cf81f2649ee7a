"""The topology that NCCL writes to the file named by NCCL_TOPO_DUMP_FILE.

NUMA nodes (cpu), below them PCIe devices (pci) with the GPUs' NVLinks and the network cards:

    <system version="1">
      <cpu numaid="0" arch="x86_64" vendor="GenuineIntel" ...>
        <pci busid="0000:18:00.0" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">
          <gpu dev="0" sm="90" rank="0">
            <nvlink target="0000:05:00.0" count="18" tclass="0x068000"/>

Unlike `nvidia-smi topo -m` it has the speeds of PCIe and network cards, and shows where an NVLink
ends: at a GPU or at a switch.
"""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from atp.topology import pcie, xml_elements
from atp.topology.machine import MAX_GPUS, NV, SYS, Gpus, Machine, Path, Paths, machine_of
from atp.topology.text import (
    bandwidth_text,
    count_text,
    integer,
    listed,
    number,
    place,
    refuse,
    shown,
)
from atp.topology.xml_elements import Element

CLASSES = ("NV", "PCIE", "SYS", "HOST")
_USUAL_PCIE = 32e9
_USUAL_SYS = 20e9
# The bandwidth of a lane by its transfers per second and its coding.
_LANES = {
    2.5: 2.5e9 / 8 * 8 / 10,
    5.0: 5e9 / 8 * 8 / 10,
    8.0: 8e9 / 8 * 128 / 130,
    16.0: 16e9 / 8 * 128 / 130,
    32.0: 32e9 / 8 * 128 / 130,
    64.0: 64e9 / 8 * 242 / 256,
}
_WIDTHS = (1, 2, 4, 8, 12, 16, 32)
_MOST_MEGABITS = 100_000_000
_SWITCH, _PROCESSOR, _GPU = "0x068000", "0x068001", "0x03"  # where an NVLink ends


@dataclasses.dataclass
class _Gpu:
    element: Element
    bus: str
    number: int  # that of NVML
    capability: int
    links: list[tuple[Element, str, int]]  # direct ones: with the target's bus and the count
    to_switches: int = 0  # NVLinks


def read(text: str, file: str, given: dict[str, float]) -> Machine:
    """`given` has bandwidths by the names in CLASSES."""
    return _Reader(file, given).read(xml_elements.parse(text, file))


def _nvlink_of(capability: int) -> float:
    """Of one NVLink, by ten times the compute capability of its GPU."""
    if capability >= 100:
        return 50e9
    if 86 <= capability < 90:
        return 14.0625e9
    return 25e9 if capability >= 70 else 20e9


class _Reader:
    """Reads one file."""

    def __init__(self, file: str, given: dict[str, float]) -> None:
        self._file = file
        self._given = given
        self._tree = pcie.PcieTree()
        self._gpus: list[_Gpu] = []  # in the order of the tree
        self._hosts: set[str] = set()  # their hashes
        self._numa_nodes: set[int] = set()
        self._cards: dict[tuple[str, str], int] = {}  # megabits per second; 0: unknown
        self._omitted: set[str] = set()
        self._lacks_pcie_speed = False

    def read(self, root: Element) -> Machine:
        self._check_root(root)
        for cpu in root.children:
            self._check(cpu, root, "cpu")
            self._read_cpu(cpu)
        if not self._gpus:
            advice = "dump it with NCCL_TOPO_DUMP_FILE in a job that uses the GPUs"
            refuse(place(self._file), "no GPU", "elements gpu with dev, sm and rank", advice)
        return self._machine()

    def _refuse(
        self, element: Element, key: str, found: str, expected: str, advice: str = ""
    ) -> NoReturn:
        refuse(element.place(self._file, key), found, expected, advice)

    def _required(self, element: Element, key: str) -> str:
        if key not in element.attributes:
            self._refuse(element, key, "nothing", "this attribute", "was the file edited?")
        return element.attributes[key]

    def _integer(self, element: Element, key: str, least: int, most: int) -> int:
        text = self._required(element, key)
        value = integer(text)
        if value is None or not least <= value <= most:
            self._refuse(element, key, shown(text), count_text(least, most))
        return value

    def _check_root(self, root: Element) -> None:
        if root.name != "system":
            found = f"the element {shown(root.name)}"
            self._refuse(root, "", found, "system, as NCCL writes it")
        version = self._required(root, "version")
        amd = "RCCL's version 2 is for AMD's GPUs, which are not supported"
        if version != "1":
            advice = amd if version == "2" else ""
            self._refuse(root, "version", shown(version), "1, which NCCL writes", advice)

    def _check(self, element: Element, parent: Element, *known: str) -> None:
        """A skipped element could be a kind of link, so unknown ones are refused."""
        if element.text:
            self._refuse(element, "", f"the text {shown(element.text)}", "elements only")
        if element.name not in known:
            advice = "AMD's GPUs are not supported" if element.name == "xgmi" else ""
            found = f"an unknown element in {shown(parent.name)}"
            self._refuse(element, "", found, listed(known), advice)

    def _read_cpu(self, cpu: Element) -> None:
        numa = self._integer(cpu, "numaid", -1, 1 << 20)
        self._hosts.add(cpu.attributes.get("host_hash", "").lower())
        if len(self._hosts) > 1:
            advice = "dump each host's with NCCL_MNNVL_ENABLE=0, and import all the files at once"
            self._refuse(cpu, "host_hash", "a second host", "the GPUs of one", advice)
        if numa in self._numa_nodes:
            self._refuse(cpu, "numaid", f"the NUMA node {numa} twice", "it once")
        self._numa_nodes.add(numa)
        node = self._tree.add(0, pcie.NUMA_NODE, self._given.get("SYS", _USUAL_SYS))
        for child in cpu.children:
            self._check(child, cpu, "pci", "nic")
        self._read_devices(cpu, node)

    def _read_devices(self, parent: Element, node: int) -> None:
        for child in parent.children:
            if child.name == "pci":
                self._read_pci(child, node)
            elif child.name == "nic":
                self._read_nic(child)

    def _read_pci(self, pci: Element, parent: int) -> None:
        """Switches without GPUs are only searched for network cards."""
        bus = self._required(pci, "busid").lower()
        is_gpu = self._required(pci, "class").lower().startswith(_GPU)
        for child in pci.children:
            self._check(child, pci, "pci", "gpu", "nic", "pcilink")
            if child.name == "pcilink":
                self._omitted.add("Links between PCIe switches (pcilink)")
        gpus = [child for child in pci.children if child.name == "gpu"]
        if is_gpu and not gpus:
            advice = (
                "a file made for NCCL_TOPO_FILE lacks NVLinks; dump one with NCCL_TOPO_DUMP_FILE"
            )
            found, expected = "a GPU without its element gpu", "one with dev, sm and rank"
            self._refuse(pci, "", found, expected, advice)
        if not gpus:
            is_above = _has_gpu(pci)
            uplink = self._pcie_bandwidth(pci) if is_above else 0.0
            node = self._tree.add(parent, pcie.PCIE, uplink) if is_above else parent
            self._read_devices(pci, node)
            return
        if below := [child for child in pci.children if child.name == "pci"]:
            expected = "a GPU at the end of its branch"
            self._refuse(below[0], "", "a device below a GPU", expected)
        if len(gpus) > 1:
            self._refuse(gpus[1], "", "a second GPU in one device", "one")
        self._read_gpu(gpus[0], bus, self._tree.add_gpu(parent, self._pcie_bandwidth(pci)))

    def _pcie_bandwidth(self, pci: Element) -> float:
        lane, lanes = self._lane_bandwidth(pci), self._lanes(pci)
        if "PCIE" in self._given:
            return self._given["PCIE"]
        self._lacks_pcie_speed |= not lane * lanes
        return lane * lanes or _USUAL_PCIE

    def _lane_bandwidth(self, pci: Element) -> float:
        """0: unknown, as in many virtual machines."""
        text = pci.attributes.get("link_speed", "")
        if not text or text.startswith("Unknown"):
            return 0.0
        rate, _, unit = text.partition(" ")
        speed = number(rate)
        if speed not in _LANES or unit not in ("GT/s", "GT/s PCIe"):
            self._refuse(pci, "link_speed", shown(text), "2.5, 5, 8, 16, 32 or 64 GT/s")
        return _LANES[speed]

    def _lanes(self, pci: Element) -> int:
        """0: unknown. The kernel then reports 0, 63 or 255."""
        text = pci.attributes.get("link_width", "")
        if text in ("", "0", "63", "255"):
            return 0
        lanes = integer(text)
        if lanes not in _WIDTHS:
            self._refuse(pci, "link_width", shown(text), "1, 2, 4, 8, 12, 16 or 32 lanes")
        return lanes

    def _read_gpu(self, element: Element, bus: str, position: int) -> None:
        if position >= MAX_GPUS:
            self._refuse(element, "", f"more than {MAX_GPUS} GPUs", f"at most {MAX_GPUS}")
        if "mlopart" in element.attributes:
            self._refuse(element, "mlopart", "a part of a GPU", "whole GPUs")
        dev = self._integer(element, "dev", 0, 1 << 20)
        gpu = _Gpu(element, bus, dev, self._integer(element, "sm", 30, 999), [])
        self._integer(element, "rank", 0, 1 << 20)
        for other in self._gpus:
            if other.bus == bus or other.number == dev:
                found = f"the GPU on line {other.element.line} again"
                self._refuse(element, "", found, "a different busid and dev")
        for link in element.children:
            self._check(link, element, "nvlink", "c2c")
            if link.name == "c2c":
                self._omitted.add("Links from GPUs to processors (c2c)")
            else:
                self._read_nvlink(link, gpu)
        self._gpus.append(gpu)

    def _read_nvlink(self, link: Element, gpu: _Gpu) -> None:
        kind = self._required(link, "tclass").lower()
        count = self._integer(link, "count", 1, 1000)
        if kind == _SWITCH:
            gpu.to_switches += count
        elif kind.startswith(_GPU):
            target = self._required(link, "target").lower()
            if not target:
                self._refuse(link, "target", "nothing", "this attribute", "was the file edited?")
            gpu.links.append((link, target, count))
        elif kind != _PROCESSOR:
            expected = "0x03\u2026 (a GPU), 0x068000 (an NVSwitch) or 0x068001 (a processor)"
            self._refuse(link, "tclass", shown(kind), expected)

    def _read_nic(self, nic: Element) -> None:
        for net in nic.children:
            self._check(net, nic, "net")
            # Other interfaces of the same cards, such as those for collectives in the network.
            if net.attributes.get("net") == "0":
                continue
            text = net.attributes.get("speed", "0")
            megabits = integer(text)
            if megabits is None or megabits > _MOST_MEGABITS:
                self._refuse(net, "speed", shown(text), f"Mbit/s, at most {_MOST_MEGABITS}")
            card = net.attributes.get("name", ""), net.attributes.get("dev", "")
            self._cards.setdefault(card, max(megabits, 0))

    def _nvlinks(self) -> list[list[int]]:
        """Direct NVLinks between two GPUs."""
        by_bus = {gpu.bus: at for at, gpu in enumerate(self._gpus)}
        direct = [[0] * len(self._gpus) for _ in self._gpus]
        for source, gpu in enumerate(self._gpus):
            for link, bus, count in gpu.links:
                target = by_bus.get(bus)
                if target == source:
                    self._refuse(link, "target", "the GPU itself", "another GPU")
                if target is None:
                    self._omitted.add("NVLinks to GPUs that are not in the file")
                else:
                    direct[source][target] += count
        for source, gpu in enumerate(self._gpus):
            for target in range(source):
                there, back = direct[source][target], direct[target][source]
                if there != back:
                    line = self._gpus[target].element.line
                    found = f"{there} NVLinks to the GPU on line {line}, but {back} back"
                    expected, advice = "as many in both directions", "was the file edited?"
                    self._refuse(gpu.element, "nvlink", found, expected, advice)
        return direct

    def _machine(self) -> Machine:
        """The GPUs in the order of their numbers."""
        direct = self._nvlinks()
        order = sorted(range(len(self._gpus)), key=lambda at: self._gpus[at].number)

        def path(a: int, b: int) -> Path:
            switched = min(self._gpus[a].to_switches, self._gpus[b].to_switches)
            count = direct[a][b] or switched
            return (NV, count) if count else (self._tree.link(a, b), 0)

        def group_link(_link: int, group: Gpus, whole: Gpus, _by_nvlink: bool) -> float:
            in_tree = [[order[gpu] for gpu in gpus] for gpus in (group, whole)]
            return self._tree.group_link(*in_tree)

        def pair(a: int, b: int) -> float:
            link, nvlinks = matrix[a][b]
            return nvlink * nvlinks if link == NV else self._tree.pair(order[a], order[b])

        # If GPUs differ, the slowest counts.
        nvlink = self._given.get("NV") or min(_nvlink_of(gpu.capability) for gpu in self._gpus)
        matrix = [[path(a, b) for b in order] for a in order]
        paths = Paths(matrix, nvlink, group_link, pair)
        paths.has_nvswitch = any(gpu.to_switches for gpu in self._gpus)
        paths.numbers = [self._gpus[at].number for at in order]
        machine = machine_of(paths, "a topology dumped by NCCL", self._remarks(paths))
        if 0 not in self._cards.values():
            machine.network = sum(megabits * 1e6 / 8 for megabits in self._cards.values())
        return machine

    def _remarks(self, paths: Paths) -> list[str]:
        used = {path[0] for row, line in enumerate(paths.paths) for path in line[:row]}
        remarks = []
        if NV in used:
            source = "as given" if "NV" in self._given else "by the GPUs' generation"
            remarks.append(f"An NVLink has {bandwidth_text(paths.nvlink)}, {source}.")
        if SYS in used and "SYS" not in self._given:
            remarks.append(
                "The links between NUMA nodes are not in the file: 20 GB/s is typical. Replace it "
                "with yours."
            )
        if self._lacks_pcie_speed:
            remarks.append(
                "The file lacks the speed of some PCIe links, as is common in virtual machines: "
                "32 GB/s is assumed for these."
            )
        return remarks + [f"{what} are left out." for what in sorted(self._omitted, reverse=True)]


def _has_gpu(element: Element) -> bool:
    return element.name == "gpu" or any(map(_has_gpu, element.children))
