"""Racks of hosts: one bridge per rack in its own namespace, and a core bridge between them."""

import contextlib
import ipaddress
import json
import os
import secrets
import signal
import subprocess
import sys
import time

from lab.host import Host, counters, pids, run
from lab.requirements import missing, privileged


class Network:
    """`racks` maps a rack's name to the names of its hosts; a single rack has no core.

    All hosts share one /24 subnet, unless `addresses` assigns addresses within one /8. Links are as
    fast as the machine until shaped by `shape_host` and `shape_uplink`. TCP uses cubic.
    """

    def __init__(self, folder, racks, subnet="10.77.0", addresses=None):
        if problem := missing():
            sys.exit(problem)
        self.folder = folder
        self.prefix = f"atp{secrets.token_hex(3)}"
        self.subnet = subnet
        self.processes = []
        self.namespaces = []
        self._addresses = addresses
        self.hosts = {}
        self._rack_of = {}
        if len(racks) > 1:
            self._add_bridge("core")
        for rack, names in racks.items():
            self._add_bridge(rack)
            if len(racks) > 1:
                self._add_cable((rack, "uplink"), ("core", f"to-{rack}"))
            for name in names:
                self._add_host(rack, name)

    def _namespace(self, name):
        return f"{self.prefix}-{name}"

    def _ip(self, name):
        return privileged("ip", "-n", self._namespace(name))

    def _add_namespace(self, name):
        run(*privileged("ip", "netns", "add", self._namespace(name)))
        self.namespaces.append(self._namespace(name))

    def _add_bridge(self, name):
        self._add_namespace(f"{name}.br")
        run(*self._ip(f"{name}.br"), "link", "add", "br0", "type", "bridge")
        run(*self._ip(f"{name}.br"), "link", "set", "br0", "up")
        # The bridge is a rack's Ethernet switch: it filters nothing, whatever modules are loaded.
        filters = "for each in /proc/sys/net/bridge/bridge-nf-call-*; do echo 0 > $each; done"
        quietly = f"[ ! -d /proc/sys/net/bridge ] || {filters}"
        namespace = self._namespace(f"{name}.br")
        run(*privileged("ip", "netns", "exec", namespace, "sh", "-c", quietly))

    def _add_cable(self, one, other):
        """A veth between two bridges, each end (bridge, interface)."""
        (bridge, device), (peer_bridge, peer_device) = one, other
        peer = ("peer", "name", peer_device, "netns", self._namespace(f"{peer_bridge}.br"))
        run(*self._ip(f"{bridge}.br"), "link", "add", device, "type", "veth", *peer)
        for name, port in (one, other):
            run(*self._ip(f"{name}.br"), "link", "set", "dev", port, "master", "br0", "up")

    def _add_host(self, rack, name):
        bits = 8 if self._addresses else 24
        address = (self._addresses or {}).get(name, f"{self.subnet}.{len(self.hosts) + 1}")
        host = Host(self, name, address)
        self._add_namespace(name)
        self.hosts[name] = host
        self._rack_of[name] = rack
        inside, bridge = self._ip(name), f"{rack}.br"
        peer = ("peer", "name", name, "netns", self._namespace(bridge))
        run(*inside, "link", "add", "eth0", "type", "veth", *peer)
        run(*self._ip(bridge), "link", "set", "dev", name, "master", "br0", "up")
        run(*inside, "addr", "add", f"{host.address}/{bits}", "dev", "eth0")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", "eth0", "up")
        # The machine's default may differ, and BBR mistakes the bursts of tbf for bandwidth.
        subnet = ipaddress.ip_interface(f"{host.address}/{bits}").network
        run(*inside, "route", "change", subnet, "dev", "eth0", "src", host.address,
            "congctl", "cubic")  # fmt: skip

    def __getitem__(self, name):
        return self.hosts[name]

    def _shape(self, name, device, mbit, queue_bytes):
        # With a burst below 64 KiB tbf would split every packet train and set a timer per piece.
        burst = max(70_000, mbit * 1_000_000 // 8 // 1000)
        namespace = self._namespace(name)
        shape = ("rate", f"{mbit}mbit", "burst", burst, "limit", queue_bytes)
        qdisc = ("tc", "qdisc", "replace", "dev", device, "root", "tbf", *shape)
        run(*privileged("ip", "netns", "exec", namespace, *qdisc))

    def shape_host(self, name, mbit, queue_bytes=8_000_000):
        """Shapes both directions of a host's link; packets beyond the queue are dropped."""
        self._shape(name, "eth0", mbit, queue_bytes)
        self._shape(f"{self._rack_of[name]}.br", name, mbit, queue_bytes)

    def shape_uplink(self, rack, mbit, queue_bytes=8_000_000):
        """Shapes both directions between a rack and the core."""
        self._shape(f"{rack}.br", "uplink", mbit, queue_bytes)
        self._shape("core.br", f"to-{rack}", mbit, queue_bytes)

    def uplink_counters(self, rack):
        """The kernel's counters of the link between a rack and the core, as the rack sees it."""
        show = ("-s", "-j", "link", "show", "uplink")
        return counters(run(*self._ip(f"{rack}.br"), *show))

    def set_mtu(self, mtu):
        """Sets the MTU of every link and bridge."""
        for namespace in self.namespaces:
            links = json.loads(run(*privileged("ip", "-n", namespace, "-j", "link", "show")))
            for device in (link["ifname"] for link in links if link["ifname"] != "lo"):
                run(*privileged("ip", "-n", namespace, "link", "set", device, "mtu", mtu))

    def set_link(self, name, state):
        """Sets a host's cable "down", which keeps its addresses and routes, or "up" again."""
        bridge = f"{self._rack_of[name]}.br"
        run(*self._ip(bridge), "link", "set", "dev", name, state)

    def set_uplink(self, rack, state):
        """Sets the cable between a rack and the core "down" or "up" again."""
        run(*self._ip(f"{rack}.br"), "link", "set", "dev", "uplink", state)

    def link(self, one, other, mtu, *subnets):
        """Connects two hosts; one gets .1 and ::1, the other .2 and ::2 of the subnets."""
        device = f"to-{other}", f"to-{one}"
        ends = [self._ip(one), self._ip(other)]
        peer = ("peer", "name", device[1], "netns", self._namespace(other))
        run(*ends[0], "link", "add", device[0], "type", "veth", *peer)
        for number, end in enumerate(ends):
            for subnet in subnets:
                bits, nodad = (64, ["nodad"]) if ":" in subnet else (24, [])
                address = f"{subnet}{number + 1}/{bits}"
                run(*end, "addr", "add", address, "dev", device[number], *nodad)
            run(*end, "link", "set", device[number], "mtu", mtu, "up")

    def without_segmentation(self):
        """Turns off segmentation, so that the kernel counts every packet as one frame."""
        for host in self.hosts.values():
            for feature in ("tx-udp-segmentation", "gso", "tso", "gro"):
                host.exec("ethtool", "-K", "eth0", feature, "off")

    def wait(self, process, seconds):
        """The exit code and output of a process; it must end in time."""
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            text = process.log.read_text(errors="replace")
            raise AssertionError(
                f"{process.args} is still running after {seconds} s:\n{text}"
            ) from None
        return code, process.log.read_text(errors="replace")

    def wait_for_line(self, process, text, seconds=10):
        end = time.monotonic() + seconds
        while text not in process.log.read_text(errors="replace"):
            assert process.poll() is None and time.monotonic() < end, (
                f"no '{text}' from {process.args}:\n{process.log.read_text(errors='replace')}"
            )
            time.sleep(0.02)

    def delete(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
        for namespace in self.namespaces:
            for pid in pids(namespace):
                with contextlib.suppress(ProcessLookupError):  # it may have ended since
                    os.kill(pid, signal.SIGKILL)
            subprocess.run(privileged("ip", "netns", "del", namespace), check=False)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.delete()
