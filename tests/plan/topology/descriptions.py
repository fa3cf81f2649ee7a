"""Descriptions of machines, as other programs write them, and how tests read them."""

import pytest

from atp.topology import hosts, nccl, nvidia
from atp.topology.text import FileError

SWITCHED = (
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tGPU3\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV12\tNV12\tNV12\tPXB\t48-63\t3\n"
    "GPU1\tNV12\t X \tNV12\tNV12\tPXB\t48-63\t3\n"
    "GPU2\tNV12\tNV12\t X \tNV12\tSYS\t16-31\t1\n"
    "GPU3\tNV12\tNV12\tNV12\t X \tSYS\t16-31\t1\n"
    "NIC0\tPXB\tPXB\tSYS\tSYS\t X \n\nLegend:\n\n  X    = Self\n"
)


def matrix(gpus, path):
    """nvidia-smi's, by a function of two GPUs or of the same path everywhere."""
    of = path if callable(path) else lambda a, b: path
    rows = [" ".join(f"GPU{gpu}" for gpu in range(gpus))]
    for a in range(gpus):
        rows.append(f"GPU{a} " + " ".join("X" if a == b else of(a, b) for b in range(gpus)))
    return "\n".join(rows) + "\n"


# Two sockets, each with two bridged GPUs whose numbers are not adjacent.
PAIRS = matrix(4, lambda a, b: "NV4" if a % 2 == b % 2 else "SYS")
# Two sockets, each with two PCIe switches of two GPUs.
PCIE = matrix(8, lambda a, b: "PIX" if a // 2 == b // 2 else "PHB" if a // 4 == b // 4 else "SYS")
# A corner of a DGX-1's cube: some pairs of GPUs have no NVLink.
CUBE = matrix(4, lambda a, b: {1: "NV1", 2: "NV2", 3: "SYS"}[a ^ b])
IRREGULAR = matrix(3, lambda a, b: "NV2" if {a, b} == {0, 2} else "NV1")


def from_nvidia(text, file="topo.txt", **given):
    return hosts.single(hosts.Host("", file, nvidia.read(text, file, given)))


def pci(bus, kind, inside, width=16, speed="16.0 GT/s PCIe"):
    return (
        f'<pci busid="{bus}" class="{kind}" link_speed="{speed}" link_width="{width}">\n'
        f"{inside}</pci>\n"
    )


def bus(number):
    return f"0000:{10 + number}:00.0"


def bridge(number, inside, width=16):
    return pci(f"0000:{80 + number}:00.0", "0x060400", inside, width)


def gpu(number, links="", width=16, sm=80):
    attributes = f'dev="{number}" sm="{sm}" rank="{number}" gdr="1"'
    return pci(bus(number), "0x030200", f"<gpu {attributes}>\n{links}</gpu>\n", width)


def nvlink(target, count):
    return f'<nvlink target="{bus(target)}" count="{count}" tclass="0x030200"/>\n'


def to_switch(target, count):
    return f'<nvlink target="{target}" count="{count}" tclass="0x068000"/>\n'


def nic(name, speed):
    return f'<nic>\n<net name="{name}" dev="0" speed="{speed}" port="1"/>\n</nic>\n'


def cpu(numa, inside):
    return f'<cpu host_hash="0x1" numaid="{numa}" arch="x86_64">\n{inside}</cpu>\n'


def system(*cpus):
    return '<system version="1">\n' + "".join(cpus) + "</system>\n"


def sockets():
    """Two, each with two PCIe switches of two GPUs; the switches' uplinks have eight lanes."""
    sides = [bridge(first, gpu(first) + gpu(first + 1), 8) for first in (0, 2, 4, 6)]
    return system(cpu(0, sides[0] + sides[1]), cpu(1, sides[2] + sides[3]))


def from_nccl(text, **given):
    return nccl.read(text, "topo.xml", given)


def error_of(read, *arguments, **named):
    with pytest.raises(FileError) as caught:
        read(*arguments, **named)
    return str(caught.value)


def has(remarks, text):
    return any(text in remark for remark in remarks)
