"""The places where the ranks of one_digest run: loopback, or hosts in two racks in namespaces."""

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from experiments.one_digest.inputs import RANKS
from experiments.report import BUILD, REPOSITORY
from lab.cluster import Cluster

ATP = BUILD / "bin" / "atp"
RANK = Path(__file__).with_name("rank.py")
LIMIT_S = 300
ENVIRONMENT = {"PYTHONPATH": str(REPOSITORY), "OMP_NUM_THREADS": "1", "ATP_DIGEST": "1"}

RACKS = """
name: two racks and one of servers
links:
  host: {{bandwidth: 100 Mbit/s per direction}}
  rack: {{bandwidth: 200 Mbit/s per direction}}
racks:
  - name: a
    uplink: core
    {a}
    hosts: [{{name: a0, address: 10.77.1.1}}, {{name: a1, address: 10.77.1.11, ranks: 2}}]
  - name: b
    uplink: core
    {b}
    hosts: [{{name: b0, address: 10.77.2.1}}, {{name: b1, address: 10.77.2.11, ranks: 2}}]
  - name: s
    uplink: core
    {s}
    hosts:
      - {{name: s0, address: 10.77.3.1}}
      - {{name: s1, address: 10.77.3.11}}
      - {{name: s2, address: 10.77.3.12}}
servers: [{servers}]
"""


class Failed(Exception):
    """A failed run; the message is the ranks' output."""


@dataclasses.dataclass(frozen=True)
class Loopback:
    """`options` are for `atp run`."""

    name: str
    options: tuple = ()

    def run(self, folder, *words):
        command = [
            ATP,
            "run",
            "-n",
            RANKS,
            *self.options,
            "--",
            sys.executable,
            RANK,
            folder,
            *words,
        ]
        environment = {"GLOO_SOCKET_IFNAME": "lo", **os.environ, **ENVIRONMENT}
        done = subprocess.run(
            [str(word) for word in command],
            capture_output=True, text=True, timeout=LIMIT_S, env=environment,
        )  # fmt: skip
        if done.returncode != 0:
            raise Failed(f"{self.name}:\n{done.stderr[-3000:]}")


@dataclasses.dataclass(frozen=True)
class Racks:
    """Four ranks on two hosts of two racks, behind slow links; a third rack has the servers."""

    name: str
    switches: tuple = ("a", "b", "s")
    servers: int = 1
    loss: bool = False  # 1 % packet loss in both directions
    killed: str | None = None  # the rack whose switch is killed halfway

    def file(self):
        switches = {rack: f"switch: {rack}0" if rack in self.switches else "" for rack in "abs"}
        servers = ", ".join(f"s{number + 1}" for number in range(self.servers))
        return RACKS.format(**switches, servers=servers)

    def run(self, folder, *words):
        with tempfile.TemporaryDirectory() as own:
            own = Path(own)
            file = own / "cluster.yaml"
            file.write_text(self.file())
            cluster = Cluster(own, ATP, file)
            try:
                services = cluster.serve()
                with self._loss(cluster):
                    job = cluster.start_job(
                        ("a1", "b1"), sys.executable, RANK, folder, *words,
                        options=("--job", 1, "--incarnation", 1), env=ENVIRONMENT,
                    )  # fmt: skip
                    if self.killed:
                        self._kill(cluster, services, job, folder)
                    cluster.finish(job, LIMIT_S)
                said = "".join(part.log.read_text(errors="replace") for part in job)
            except AssertionError as problem:
                raise Failed(f"{self.name}:\n{problem}") from None
            finally:
                cluster.delete()
        if self.killed and "no longer answers" not in said:
            raise Failed(f"{self.name}: the ranks did not notice that a switch was killed")

    @contextlib.contextmanager
    def _loss(self, cluster):
        """Drops packets meanwhile; fails if none were lost."""
        if not self.loss:
            yield
            return
        for host in cluster.network.hosts.values():
            host.exec("nft", "add table inet lossy")
            host.exec("nft", "add chain inet lossy in { type filter hook input priority 0 ; }")
            rule = "meta l4proto udp numgen random mod 100 == 0 counter drop"
            host.exec("nft", f"add rule inet lossy in {rule}")
        yield
        lost = sum(map(_packets_lost, cluster.network.hosts.values()))
        print(f"  {lost} packets were lost")
        assert lost > 0, "no packet was lost"

    def _kill(self, cluster, services, job, folder):
        """Kills the switch after a round; `atp run` restarts it after a second."""
        end = time.monotonic() + LIMIT_S
        while not (folder / "progress").exists():
            assert time.monotonic() < end, "no round is done"
            assert all(part.poll() is None for part in job), "a rank ended early"
            time.sleep(0.02)
        cluster.kill_switch(self.killed)


def _packets_lost(host):
    rules = json.loads(host.exec("nft", "-j", "list table inet lossy"))["nftables"]
    words = [word for rule in rules for word in rule.get("rule", {}).get("expr", [])]
    return sum(word["counter"]["packets"] for word in words if "counter" in word)
