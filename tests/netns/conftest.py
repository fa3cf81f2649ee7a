"""Hosts as network namespaces, each with one veth to a bridge in a namespace of its own.

Everything is made with a random prefix and deleted afterwards. Needs root, `ip`, `nft` and
`ethtool`; without them the tests here fail with what to install, they are never skipped silently.
"""

import json
import os
import secrets
import shutil
import subprocess
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
ATP = BUILD / "bin" / "atp"


def run(*words, **options):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{' '.join(map(str, words))}: {done.stderr.strip()}"
    return done.stdout


class Host:
    """One namespace; its interface is eth0."""

    def __init__(self, network, name, number):
        self.network = network
        self.namespace = f"{network.prefix}-{name}"
        self.name = name
        self.address = f"{network.subnet}.{number}"

    def exec(self, *words, **options):
        return run("ip", "netns", "exec", self.namespace, *words, **options)

    def start(self, *words, env=None, log=None):
        """A process in this host; its output goes to a file that `output()` of it reads."""
        log = Path(log or self.network.folder / f"{self.name}-{secrets.token_hex(3)}.log")
        with open(log, "wb") as out:
            process = subprocess.Popen(
                ["ip", "netns", "exec", self.namespace, *[str(w) for w in words]],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **{k: str(v) for k, v in (env or {}).items()}},
            )
        process.log = log
        self.network.processes.append(process)
        return process

    def counters(self):
        """The kernel's own counters of the interface."""
        names = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")
        link = json.loads(self.exec("ip", "-s", "-j", "link", "show", "eth0"))[0]["stats64"]
        return {name: link[name[:2]][name[3:]] for name in names}


class Network:
    """Hosts behind one bridge."""

    def __init__(self, folder, names, subnet):
        self.folder = folder
        self.atp = ATP
        self.prefix = f"atp{secrets.token_hex(3)}"
        self.subnet = subnet
        self.processes = []
        self.namespaces = []
        self._add_namespace(f"{self.prefix}-bridge")
        bridge = ("ip", "-n", f"{self.prefix}-bridge")
        run(*bridge, "link", "add", "br0", "type", "bridge")
        run(*bridge, "link", "set", "br0", "up")
        self.hosts = {name: self._add_host(name, i + 1) for i, name in enumerate(names)}

    def _add_namespace(self, name):
        run("ip", "netns", "add", name)
        self.namespaces.append(name)

    def _add_host(self, name, number):
        host = Host(self, name, number)
        self._add_namespace(host.namespace)
        inside = ("ip", "-n", host.namespace)
        port = f"p{number}"
        run(
            *inside,
            "link",
            "add",
            "eth0",
            "type",
            "veth",
            "peer",
            "name",
            port,
            "netns",
            f"{self.prefix}-bridge",
        )
        run("ip", "-n", f"{self.prefix}-bridge", "link", "set", port, "master", "br0", "up")
        run(*inside, "addr", "add", f"{host.address}/24", "dev", "eth0")
        run(*inside, "link", "set", "lo", "up")
        run(*inside, "link", "set", "eth0", "up")
        return host

    def link(self, one, other, mtu, *subnets):
        """A cable between two hosts; one gets .1 and ::1, the other .2 and ::2 of the subnets."""
        device = f"to-{other}", f"to-{one}"
        ends = [("ip", "-n", self.hosts[name].namespace) for name in (one, other)]
        peer = ("peer", "name", device[1], "netns", self.hosts[other].namespace)
        run(*ends[0], "link", "add", device[0], "type", "veth", *peer)
        for number, end in enumerate(ends):
            for subnet in subnets:
                bits, nodad = (64, ["nodad"]) if ":" in subnet else (24, [])
                address = f"{subnet}{number + 1}/{bits}"
                run(*end, "addr", "add", address, "dev", device[number], *nodad)
            run(*end, "link", "set", device[number], "mtu", mtu, "up")

    def __getitem__(self, name):
        return self.hosts[name]

    def without_segmentation(self):
        """Every packet becomes a frame of its own, which the kernel counts as one."""
        for host in self.hosts.values():
            for feature in ("tx-udp-segmentation", "gso", "tso", "gro"):
                host.exec("ethtool", "-K", "eth0", feature, "off")

    def wait(self, process, seconds):
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"{process.args} still runs after {seconds} s:\n{process.log.read_text()}")
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
            for pid in subprocess.run(
                ["ip", "netns", "pids", namespace], capture_output=True, text=True
            ).stdout.split():
                os.kill(int(pid), 9)
            subprocess.run(["ip", "netns", "del", namespace], check=False)


@pytest.fixture
def make_network(tmp_path):
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root: run the tests as root, or with sudo")
    for tool in ("ip", "nft", "ethtool"):
        if shutil.which(tool) is None:
            pytest.fail(f"`{tool}` is missing: run tools/setup --dev")
    assert ATP.exists(), f"{ATP} does not exist: run `make build` first"
    networks = []

    def make(*names, subnet="10.77.0"):
        networks.append(Network(tmp_path, names, subnet))
        return networks[-1]

    yield make
    for network in networks:
        network.delete()
