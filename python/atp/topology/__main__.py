"""`atp plan import`: prints a cluster file made from another program's description."""

from __future__ import annotations

import argparse
import dataclasses
import signal
import sys
from typing import NoReturn

from atp.topology import astra, hosts, nccl, nvidia, slurm
from atp.topology.cluster import Cluster
from atp.topology.machine import NAMES
from atp.topology.text import FileError, listed, parse_bandwidth, place, refuse, shown

FORMATS = ("auto", "nvidia-smi", "nccl", "slurm", "astra-sim")
_MOST_BYTES = 8 << 20
_EXAMPLES = """\
examples:
  nvidia-smi topo -m | atp plan import - > mine.yaml
  atp plan import topo.txt --link "SYS=12 GB/s per direction" --link "NV=50 GB/s per direction"
      use a measured bandwidth between sockets, and that of NVLink 5
  atp plan import gpu1.txt gpu2.txt --link "HOST=200 Gbit/s per direction" > cluster.yaml
      two equal hosts, from the output of nvidia-smi topo -m on each; the hosts are named after the
      files, or by --name HOST=FILE
  atp plan import topo.xml > mine.yaml
      import what a job run with NCCL_TOPO_DUMP_FILE=topo.xml wrote
  atp plan import Ring_Switch.yml --format astra-sim > cluster.yaml
  atp plan import topology.conf --link "NODE=200 Gbit/s per direction" > cluster.yaml
      import from Slurm, one device per node (UPLINK sets the bandwidth above a leaf switch)
  atp plan import topology.conf --nodes "tux[0-11,16-27]" > cluster.yaml
      only these nodes
"""


@dataclasses.dataclass
class _Input:
    path: str
    host: str = ""  # not named
    text: str = ""
    format: str = ""

    @property
    def file(self) -> str:
        """As messages call it."""
        return "standard input" if self.path == "-" else self.path


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see '{self.prog} --help')\n")


def main(words: list[str]) -> int:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    parser = _parser()
    arguments = parser.parse_intermixed_args(words)
    try:
        text = imported(arguments).text()
    except FileError as error:
        parser.exit(2, f"{parser.prog}: {error}\n")
    try:
        sys.stdout.buffer.write(text.encode())
        sys.stdout.buffer.flush()
    except OSError as error:
        sys.stderr.write(f"{parser.prog}: cannot write to standard output: {error.strerror}\n")
        sys.stdout = None  # type: ignore[assignment]  # or Python would try again, and say so
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="atp plan import",
        description="Converts the output of `nvidia-smi topo -m`, a topology dumped by NCCL, "
        "Slurm's topology.conf or topology.yaml, or an ASTRA-sim network to a cluster file.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "file",
        nargs="*",
        metavar="FILE",
        help="input file, - for standard input; several files, one per host, from nvidia-smi or "
        "NCCL",
    )
    add(
        "--name",
        action="append",
        default=[],
        metavar="HOST=FILE",
        help="name of the host that a file is from (default: the file's name without its suffix)",
    )
    add("--format", choices=FORMATS, default="auto", help="format of the files (default: auto)")
    add(
        "--link",
        action="append",
        default=[],
        metavar="CLASS=BANDWIDTH",
        help="bandwidth of a class of links, instead of the usual bandwidth: NV (per NVLink), PIX, "
        "PXB, PHB, NODE, SYS, HOST; for NCCL: NV, PCIE, SYS, HOST; for Slurm: NODE, UPLINK",
    )
    add("--nodes", default="", metavar="LIST", help="import only these nodes of Slurm's file")
    return parser


def imported(arguments: argparse.Namespace) -> Cluster:
    inputs = _inputs(arguments)
    first = inputs[0]
    for one in inputs:
        if one.format != first.format:
            found, expected = f"the format {one.format}", f"{first.format}, like {first.file}"
            refuse(place(one.file), found, expected)
    if arguments.nodes and first.format != "slurm":
        problem = f"--nodes is for Slurm; the format of {first.file} is {first.format}"
        raise FileError("", problem)
    if first.format in ("nvidia-smi", "nccl"):
        return _machines(inputs, arguments.link)
    if len(inputs) > 1:
        expected = f"one, because a file of the format {first.format} describes a whole network"
        refuse(place(inputs[1].file), "a second file", expected)
    if first.format == "slurm":
        links = _links(arguments.link, slurm.CLASSES)
        return slurm.read(first.text, first.file, links, arguments.nodes)
    if arguments.link:
        problem = "--link is for nvidia-smi, NCCL and Slurm; this is an ASTRA-sim network"
        raise FileError("", problem)
    return astra.read(first.text, first.file)


def _machines(inputs: list[_Input], given: list[str]) -> Cluster:
    is_nccl = inputs[0].format == "nccl"
    links = _links(given, nccl.CLASSES if is_nccl else (*NAMES, "HOST"))
    read = nccl.read if is_nccl else nvidia.read
    machines = [hosts.Host(one.host, one.file, read(one.text, one.file, links)) for one in inputs]
    if len(machines) == 1:
        if "HOST" in links:
            raise FileError("", "--link HOST is for several hosts; found one file")
        return hosts.single(machines[0])
    for one, machine in zip(inputs, machines):  # noqa: B905
        machine.name = machine.name or _host_of(one.path)
    return hosts.merged(machines, links.get("HOST", 0.0))


def _inputs(arguments: argparse.Namespace) -> list[_Input]:
    inputs: dict[str, _Input] = {}
    for path in arguments.file:
        if path in inputs:
            refuse(shown(inputs[path].file), "twice", "once", "each host needs its own file")
        inputs[path] = _Input(path)
    for name in arguments.name:
        host, _, path = name.partition("=")
        if not host or not path:
            raise FileError(f"--name {shown(name)}", "expected HOST=FILE")
        one = inputs.setdefault(path, _Input(path))
        if one.host:
            problem = f"found a second name for {shown(path)}, already named {shown(one.host)}"
            raise FileError(f"--name {shown(name)}", f"{problem}; remove one")
        one.host = host
    if not inputs:
        raise FileError("", "found no file, expected FILE, or - for standard input")
    for one in inputs.values():
        one.text = _read(one)
        is_auto = arguments.format == "auto"
        one.format = _format_of(one.text, one.file) if is_auto else arguments.format
    return list(inputs.values())


def _read(one: _Input) -> str:
    try:
        if one.path == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with open(one.path, "rb") as stream:
                data = stream.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise FileError(place(one.file), f"cannot be read: {why}") from None
    if len(data) > _MOST_BYTES:
        refuse(place(one.file), "more than 8 MiB", "a description of a few kilobytes")
    return data.decode("utf-8", "surrogateescape")


def _format_of(text: str, file: str) -> str:
    """By what only files of one format contain."""
    lower = text.lower()
    if text.removeprefix("\ufeff").lstrip(" \t\r\n").startswith("<"):
        return "nccl"
    if "GPU0" in text:
        return "nvidia-smi"
    if "npus_count" in text:
        return "astra-sim"
    if "switchname=" in lower or ("topology:" in lower and "switch:" in lower):
        return "slurm"
    refuse(
        place(file),
        shown(text.split("\n")[0]),
        "the output of nvidia-smi topo -m (a line begins with GPU0), NCCL's topology (the XML "
        "element system), an ASTRA-sim network (with the key npus_count), or Slurm's topology.conf "
        "(with the key SwitchName) or topology.yaml (with a tree of switches)",
    )


def _host_of(path: str) -> str:
    """gpu1 for out/gpu1.txt. A host's name may have dots."""
    name = path.rpartition("/")[2]
    for ending in (".txt", ".xml", ".log", ".out"):
        if name.endswith(ending) and name != ending:
            return name.removesuffix(ending)
    return name


def _links(given: list[str], names: tuple[str, ...]) -> dict[str, float]:
    """Bandwidths by class."""
    links = {}
    for link in given:
        name, equals, bandwidth = link.partition("=")
        if not equals or name not in names:
            expected = f"expected CLASS=BANDWIDTH, where the class is {listed(names)}"
            raise FileError(f"--link {link}", expected)
        links[name] = parse_bandwidth(f"--link {name}", bandwidth)
    return links


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
