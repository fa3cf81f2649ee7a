"""One host: a network namespace whose interface eth0 is connected to its rack."""

import json
import os
import secrets
import subprocess
from pathlib import Path

from lab.entry import ends_with_us
from lab.requirements import privileged


def run(*words, **options):
    """The standard output of a command; it must succeed."""
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, words))}: {done.stderr.strip()}")
    return done.stdout


def pids(namespace):
    """The ids of the processes in a namespace; none if it does not exist."""
    command = privileged("ip", "netns", "pids", namespace)
    done = subprocess.run(command, capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


def counters(text):
    """Packets and bytes of one interface, from the JSON of `ip -s link show`."""
    link = json.loads(text)[0]["stats64"]
    names = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")
    return {name: link[name[:2]][name[3:]] for name in names}


class Host:
    def __init__(self, network, name, address):
        self.network = network
        self.namespace = f"{network.prefix}-{name}"
        self.name = name
        self.address = address

    def exec(self, *words, **options):
        return run(*self.command(*words), **options)

    def command(self, *words):
        """The command line that runs `words` on this host."""
        return privileged("ip", "netns", "exec", self.namespace, *words)

    def start(self, *words, env=None, log=None):
        """Starts a process on this host; its output goes to the file `process.log`."""
        log = Path(log or self.network.folder / f"{self.name}-{secrets.token_hex(3)}.log")
        with open(log, "wb") as out:
            process = subprocess.Popen(
                self.command(*words),
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                preexec_fn=ends_with_us(),
                env={**os.environ, **{k: str(v) for k, v in (env or {}).items()}},
            )
        process.log = log
        self.network.processes.append(process)
        return process

    def drop(self, per_cent):
        """Drops this share of incoming UDP and TCP packets, at random."""
        of_ten_thousand = round(per_cent * 100)
        self.exec("nft", "add table inet lose")
        self.exec("nft", "add chain inet lose in { type filter hook input priority 0 ; }")
        some = f"numgen random mod 10000 < {of_ten_thousand}" if per_cent < 100 else ""
        self.exec("nft", f"add rule inet lose in meta l4proto {{ tcp, udp }} {some} drop")

    def drop_udp_from(self, address):
        """Drops what UDP brings from an address: a link that is cut in one direction."""
        self.exec("nft", "add table inet cut")
        self.exec("nft", "add chain inet cut in { type filter hook input priority 0 ; }")
        self.exec("nft", f"add rule inet cut in ip saddr {address} meta l4proto udp drop")

    def end_drops(self):
        self.exec("nft", "delete table inet cut")

    def pids(self):
        """The ids of the processes on this host."""
        return pids(self.namespace)

    def udp_ports(self):
        """The UDP ports of the programs' sockets; the system's resolver has none here."""
        return {
            line.split()[3].rpartition(":")[2] for line in self.exec("ss", "-Hunl").splitlines()
        }

    def counters(self):
        """The kernel's own counters of the interface."""
        return counters(self.exec("ip", "-s", "-j", "link", "show", "eth0"))
