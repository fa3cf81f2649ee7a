"""Measures what keys cost, and what somebody without one achieves.

    .venv/bin/python -m experiments.defence.keys [--mbit N] [--rounds N] [--forged N] [FOLDER]

Four ranks on links of their own, a switch and a server on links of four times that: the same
all-reduces without and with keys, alternately; then with keys while a fifth host sends forged
packets to the switch, of which every field is right but the tag (forge_tags.py). The switch must
count each of them, and the digests of all ranks must agree. Writes keys.csv into FOLDER (default:
out/keys).
"""

import csv
import json
import os
import re
import resource
import statistics
import sys
import tempfile
import time
from pathlib import Path

from experiments import report
from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
FORGE = Path(__file__).with_name("forge_tags.py")
RANKS, WIDE, SIZE, ITERATIONS = 4, 4, 16 << 20, 20
VALUES = 348  # per fragment, for both sides
DATAGRAM = 40 + 8 + 4 * VALUES + 12
FRAGMENTS = ITERATIONS * SIZE // 4 / VALUES
LIMIT_S = 120


class Rack:
    """The network, with nodes that have keys and others that have none."""

    def __init__(self, network, folder):
        self.network, self.folder = network, folder
        self.hosts = [network[f"h{rank}"] for rank in range(RANKS)]
        self.key = folder / "vision.key"
        run = network["switch"].exec
        run(ATP, "key", "vision", self.key)
        self.nodes = {}
        for has_key, ports in ((False, (5600, 5601)), (True, (5500, 5501))):
            options = ("--keys", self.key) if has_key else ()
            server, switch = (
                f"{network[role].address}:{port}"
                for role, port in zip(("server", "switch"), ports, strict=True)
            )
            upstream = ("--upstream", f"{network.subnet}.0/24")
            processes = [
                network["server"].start(ATP, "server", "--listen", server, *options),
                network["switch"].start(ATP, "switch", "--listen", switch, *upstream, *options),
            ]
            for process in processes:
                network.wait_for_line(process, "listening on", 30)
            self.nodes[has_key] = (processes, f"{switch},{server}", switch)

    def bench(self, has_key, during=lambda: None):
        """Returns Gbit/s per rank, and microseconds of processor time per fragment."""
        processes, route, _ = self.nodes[has_key]
        variables = {
            "WORLD_SIZE": RANKS, "ATP_ROUTE": route, "ATP_VALUES_PER_FRAGMENT": VALUES,
            "ATP_JOB": time.monotonic_ns() % 2**32, "ATP_INCARNATION": 1,
        }  # fmt: skip
        if has_key:
            variables["ATP_KEY_FILE"] = self.key
        before = [cpu_us(process) for process in processes], children_us()
        words = ("-b", SIZE, "-e", SIZE, "-n", ITERATIONS, "-w", 3, "--digest")
        ranks = [
            host.start(ATP, "bench", "allreduce", *words, env={**variables, "RANK": rank})
            for rank, host in enumerate(self.hosts)
        ]
        attack = during()
        for rank in ranks:
            self.network.wait(rank, LIMIT_S)
        said = [rank.log.read_text() for rank in ranks]
        if any(rank.returncode for rank in ranks):
            raise SystemExit("a rank failed:\n" + "\n".join(said))
        if attack is not None:
            attack()
        nodes = [cpu_us(process) - old for process, old in zip(processes, before[0], strict=True)]
        us = float(re.search(rf"^\s*{SIZE}\s.*$", said[0], re.MULTILINE)[0].split()[4])
        warm = (ITERATIONS + 3) / ITERATIONS  # the warm-up costs as much per fragment
        return {
            "Gbit/s": SIZE * 8 / us / 1e3,
            "server": nodes[0] / FRAGMENTS / warm,
            "switch": nodes[1] / FRAGMENTS / warm,
            "rank": (children_us() - before[1]) / RANKS / FRAGMENTS / warm,
        }

    def attacked(self, count, per_second):
        """Starts the forger; returns what ends it, which checks that nothing was accepted."""
        file = self.folder / f"captured-{time.monotonic_ns()}"
        switch = self.nodes[True][2]
        before = wrong_keys(self.network, switch)
        listener = self.hosts[0].start(sys.executable, FORGE, "listen", file)
        forger = self.network["stranger"].start(
            sys.executable, FORGE, "send", file, count, per_second, DATAGRAM
        )

        def end():
            self.network.wait(forger, LIMIT_S)
            listener.kill()
            listener.wait()
            time.sleep(0.5)
            self.sent += count
            self.counted += wrong_keys(self.network, switch) - before

        return end

    sent = counted = 0


def cpu_us(process):
    """User and system time of a process: `ip netns exec` becomes the program that it runs."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1e6 / os.sysconf("SC_CLK_TCK")


def children_us():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e6


def wrong_keys(network, address):
    status = json.loads(network["switch"].exec(ATP, "status", address, "--json"))
    return status["counters"]["udp_wrong_key"]


def main(words):
    network_of = {"rack": [*(f"h{rank}" for rank in range(RANKS)), "switch", "server", "stranger"]}
    with tempfile.TemporaryDirectory() as name, Network(Path(name), network_of) as network:
        for rank in range(RANKS):
            network.shape_host(f"h{rank}", words.mbit)
        for role in ("switch", "server", "stranger"):
            network.shape_host(role, words.mbit * WIDE)
        rack = Rack(network, Path(name))
        each = words.forged // words.rounds
        ways = {
            "no keys": lambda: rack.bench(False),
            "keys": lambda: rack.bench(True),
            "keys, forged packets": lambda: rack.bench(
                True, lambda: rack.attacked(each, words.per_second)
            ),
        }
        found = {way: [] for way in ways}
        for number in range(words.rounds):
            order = list(ways) if number % 2 == 0 else list(reversed(ways))
            for way in order:
                found[way].append(ways[way]())
                print(f"round {number + 1} of {words.rounds}, {way}: {found[way][-1]}", flush=True)
        sent, counted = rack.sent, rack.counted
    rows = []
    for way, rounds in found.items():
        ratios = [
            one["Gbit/s"] / base["Gbit/s"]
            for one, base in zip(rounds, found["no keys"], strict=True)
        ]
        rows.append(
            {
                "": way,
                **{
                    name: round(statistics.median(r[name] for r in rounds), 3) for name in rounds[0]
                },
                "speed / without keys": round(statistics.median(ratios), 3),
                "least": round(min(ratios), 3),
                "most": round(max(ratios), 3),
            }
        )
    print(f"{'':22}Gbit/s   us per fragment: server  switch  a rank   / without keys")
    for row in rows:
        print(
            f"{row['']:22}{row['Gbit/s']:6.3f}{row['server']:25.2f}{row['switch']:8.2f}"
            f"{row['rank']:8.2f}   {row['speed / without keys']:.3f} "
            f"({row['least']:.3f} to {row['most']:.3f})"
        )
    print(f"forged: {sent:,} sent, {counted:,} counted by the switch as wrong, none accepted")
    words.folder.mkdir(parents=True, exist_ok=True)
    with open(words.folder / "keys.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    # What the switch's receive buffer drops is not counted, and not accepted either.
    if counted < 0.9 * sent:
        raise SystemExit("too few of the forged packets reached the switch")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/keys")
    parser.add_argument("--mbit", type=int, default=1000, help="a rank's link (default: 1000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds (default: 5)")
    parser.add_argument("--forged", type=int, default=1_000_000, help="forged packets, in all")
    parser.add_argument("--per-second", type=int, default=20_000, help="… per second")
    main(parser.parse_args())
