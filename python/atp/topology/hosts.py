"""One machine, or a cluster of hosts, each imported from its own file.

The planner knows trees of equal units, so the hosts must have the same levels; if bandwidths
differ, the slowest counts.
"""

from __future__ import annotations

import dataclasses

from atp.topology.cluster import Cluster, Level, Pairs, base_name
from atp.topology.machine import Machine
from atp.topology.text import FileError, bandwidth_text, is_plain, made_plain, place, refuse, shown

_USUAL = 12.5e9  # bytes per second of a host's link
_MAX_MATRIX = 1024  # the matrix of so many devices fills the largest file that is read
_SHOWN = 64


@dataclasses.dataclass
class Host:
    name: str  # may be empty if it is the only one
    file: str
    machine: Machine


def single(host: Host) -> Cluster:
    """Of two GPUs or more."""
    machine = host.machine
    if machine.gpus < 2:
        refuse(place(host.file), _gpus(machine.gpus), "two or more")
    remarks = [f"Imported from {host.file}, {machine.source}.", *machine.remarks]
    if machine.order:
        remarks.append(_order(machine.order) + ".")
    name = host.name or base_name(host.file)
    return Cluster(name, machine.levels, remarks, machine.pairs).check(host.file)


def merged(hosts: list[Host], bandwidth: float) -> Cluster:
    """Two hosts or more under one switch. `bandwidth` of a host's link; 0: that of its cards."""
    _check_names(hosts)
    _check_equal(hosts)
    first = hosts[0].machine
    names = ",".join(host.name for host in hosts[:_SHOWN])
    names += f",... of {len(hosts)}" if len(hosts) > _SHOWN else ""
    remarks = [f"Imported from {len(hosts)} files, one per host: {first.source}."]
    remarks.append(f"The hosts in the planner's order: {names}.")
    for host in hosts:
        remarks += [remark for remark in host.machine.remarks if remark not in remarks]
        if host.machine.order:
            remarks.append(f"{_order(host.machine.order)} on {host.name}.")
    levels = []
    for at, level in enumerate(first.levels):
        rates = [host.machine.levels[at].bandwidth for host in hosts]
        slowest = _slowest(hosts, f"level {level.name}", rates, remarks)
        levels.append(dataclasses.replace(level, bandwidth=slowest))
    top = Level("host", len(hosts), bandwidth=bandwidth or _usual_link(hosts, remarks))
    pairs = _merged_pairs(hosts, top.bandwidth) if first.pairs else None
    name = f"{len(hosts)} hosts with {_gpus(first.gpus)} each"
    return Cluster(name, [top, *levels], remarks, pairs).check(hosts[0].file)


def _check_names(hosts: list[Host]) -> None:
    seen: dict[str, Host] = {}
    for host in hosts:
        if not host.name or not is_plain(host.name):
            expected = "a name without control characters"
            advice = "name it with --name HOST=FILE"
            refuse(place(host.file), f"the host name {shown(host.name)}", expected, advice)
        if host.name in seen:
            raise FileError(
                place(host.file),
                f"the host {shown(host.name)} occurs twice, also in {seen[host.name].file}; remove "
                "one, or name the hosts with --name HOST=FILE",
            )
        seen[host.name] = host


def _check_equal(hosts: list[Host]) -> None:
    first = hosts[0].machine
    like = f", like {made_plain(hosts[0].file)}"
    advice = (
        "the planner needs equal hosts: import only hosts of one kind, or from each only as many "
        "GPUs as all of them have"
    )
    for host in hosts:
        for text in (lambda machine: _gpus(machine.gpus), _shape):
            if text(host.machine) != text(first):
                refuse(place(host.file), text(host.machine), text(first) + like, advice)


def _gpus(gpus: int) -> str:
    return f"{gpus} GPU" if gpus == 1 else f"{gpus} GPUs"


def _shape(machine: Machine) -> str:
    levels = [f"{level.count} x {level.name} ({level.kind})" for level in machine.levels]
    return ", ".join(levels) + (", pair by pair" if machine.pairs else "")


def _order(order: str) -> str:
    return f"The order here differs from the GPUs' numbers: run with CUDA_VISIBLE_DEVICES={order}"


def _slowest(hosts: list[Host], links: str, rates: list[float], remarks: list[str]) -> float:
    """Adds a remark if they differ."""
    least, most = min(rates), max(rates)
    if least < most:
        slow, fast = (
            f"{bandwidth_text(rate)} ({hosts[at].name})"
            for rate, at in (
                (least, rates.index(least)),
                (most, len(rates) - 1 - rates[::-1].index(most)),
            )
        )
        remarks.append(f"The links of {links} differ, from {slow} to {fast}: the slowest counts.")
    return least


def _usual_link(hosts: list[Host], remarks: list[str]) -> float:
    networks = [host.machine.network for host in hosts]
    if min(networks) > 0:
        slowest = _slowest(hosts, "hosts", networks, remarks)
        remarks.append("A host's link has the combined bandwidth of its network cards.")
        return slowest
    remarks.append(
        "The hosts' link is not in the files: 100 Gbit/s is typical. Replace it with yours."
    )
    return _USUAL


def _merged_pairs(hosts: list[Host], bandwidth: float) -> Pairs:
    """Between two hosts a pair has at most the hosts' link."""
    each = hosts[0].machine.gpus
    count = each * len(hosts)
    if count > _MAX_MATRIX:
        found = f"{count} GPUs whose pairs are described separately"
        refuse(place(hosts[0].file), found, f"at most {_MAX_MATRIX}", "import fewer hosts")
    rows = []
    for at, host in enumerate(hosts):
        before, after = [bandwidth] * (each * at), [bandwidth] * (count - each * (at + 1))
        rows += [before + row + after for row in host.machine.pairs or []]
    return rows
