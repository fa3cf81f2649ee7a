"""The network of a workload: hosts, links, switches, servers, and each rank's route."""

import contextlib
import tempfile
from pathlib import Path

from experiments.bench.ways import WAYS
from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
SERVER_PORT, SWITCH_PORT = 5500, 5501


@contextlib.contextmanager
def network_of(workload):
    with tempfile.TemporaryDirectory(prefix="atp-bench-") as folder:
        with Network(Path(folder), _racks(workload)) as network:
            place = Place(network, workload)
            place.shape()
            place.start_services()
            yield place


def _rank_names(workload):
    return [f"h{rank}" for rank in range(workload.ranks)]


def _server_names(workload):
    return [f"server{number}" for number in range(workload.servers)]


def _racks(workload):
    names, servers = _rank_names(workload), _server_names(workload)
    if workload.layout == "host":
        return {"rack": ["host"]}
    if workload.layout == "racks":
        half = (workload.ranks + 1) // 2
        return {
            "a": [*names[:half], "switch-a"],
            "b": [*names[half:], "switch-b"],
            "top": ["switch", *servers],
        }
    return {"rack": [*names, *(["switch"] if workload.has_switch else []), *servers]}


class Place:
    def __init__(self, network, workload):
        self.network = network
        self.workload = workload
        if workload.layout == "host":
            self.hosts = [network["host"]] * workload.ranks
            self._services = []
        else:
            self.hosts = [network[name] for name in _rank_names(workload)]
            ranks = set(_rank_names(workload))
            self._services = [name for name in network.hosts if name not in ranks]

    def shape(self):
        workload = self.workload
        if workload.mtu != 1500:
            self.network.set_mtu(workload.mtu)
        if workload.mbit is None:
            return
        for host in self.hosts:
            self.network.shape_host(host.name, workload.mbit)
        for name in self._services:
            self.network.shape_host(name, int(workload.mbit * workload.wide))
        if workload.layout == "racks":
            for rack in ("a", "b"):
                self.network.shape_uplink(rack, workload.mbit)
        if workload.loss_per_cent:
            for host in self.network.hosts.values():
                host.drop(workload.loss_per_cent)

    def start_services(self):
        if self.workload.layout == "host":
            self._start("host", "server", SERVER_PORT)
            self._start("host", "switch", SWITCH_PORT)
            return
        for name in self._services:
            if name.startswith("server"):
                self._start(name, "server", SERVER_PORT)
        for name in self._services:
            if name.startswith("switch"):
                self._start(name, "switch", SWITCH_PORT)

    def _start(self, host, role, port):
        upstream = ("--upstream", f"{self.network.subnet}.0/24") if role == "switch" else ()
        listen = f"{self.network[host].address}:{port}"
        node = self.network[host].start(ATP, role, "--listen", listen, *upstream)
        self.network.wait_for_line(node, "listening on", 30)

    def route(self, rank):
        """ATP_ROUTE: the route to each server, through the switches before it."""
        if self.workload.layout == "host":
            address = self.network["host"].address
            return f"{address}:{SWITCH_PORT},{address}:{SERVER_PORT}"
        switches = ["switch"] if self.workload.has_switch else []
        if self.workload.layout == "racks":
            switches = [
                "switch-a" if rank < (self.workload.ranks + 1) // 2 else "switch-b",
                *switches,
            ]
        before = [f"{self.network[name].address}:{SWITCH_PORT}" for name in switches]
        return ";".join(
            ",".join([*before, f"{self.network[server].address}:{SERVER_PORT}"])
            for server in _server_names(self.workload)
        )

    def bytes_of_rank_0(self):
        """Bytes that its interface sent and received; None if ranks share one."""
        if self.workload.layout == "host":
            return None
        counters = self.hosts[0].counters()
        return counters["tx_bytes"] + counters["rx_bytes"]


def kinds(workload):
    """The programs that a workload's implementations need, in their order."""
    return list(dict.fromkeys(WAYS[way].kind for way in workload.ways))


def ways_of(workload, kind):
    return [way for way in workload.ways if WAYS[way].kind == kind]
