"""The speed of all-reduces on a rack, and the processor time of a fragment on each kind of node.

Compares ways to run the same job on the same links, alternately:

    with rack(ranks=4, mbit=1000, wide=4) as (network, hosts):
        nodes = start_nodes(network, 5500)
        found = alternate({"plain": lambda: all_reduces(network, hosts, nodes)}, rounds=5)
        show(summary(found, "plain"), "plain", folder, "name")
"""

import contextlib
import csv
import re
import resource
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
SIZE, ITERATIONS, WARM_UP = 16 << 20, 20, 3
VALUES = 348  # per fragment: what fits an MTU of 1,500 with a tag
FRAGMENTS = (ITERATIONS + WARM_UP) * SIZE // 4 / VALUES
LIMIT_S = 120


@contextlib.contextmanager
def rack(ranks, mbit, wide, others=()):
    """Yields the network and the ranks' hosts; their links have `mbit`, others `wide` times that.

    The others are `switch`, `server` and those named in `others`.
    """
    names = [f"h{rank}" for rank in range(ranks)]
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": [*names, "switch", "server", *others]}) as network,
    ):
        for name in names:
            network.shape_host(name, mbit)
        for name in ("switch", "server", *others):
            network.shape_host(name, mbit * wide)
        yield network, [network[name] for name in names]


@dataclass
class Nodes:
    server: object
    switch: object
    route: str
    addresses: list  # of server and switch


def start_nodes(network, port, options=lambda _: ()):
    """A server on `port` and a switch on the next one. `options(role)`: its options."""
    found, addresses = [], []
    for role, own in (("server", port), ("switch", port + 1)):
        address = f"{network[role].address}:{own}"
        upstream = ("--upstream", f"{network.subnet}.0/24") if role == "switch" else ()
        words = (role, "--listen", address, *upstream, *options(role))
        found.append(network[role].start(ATP, *words))
        network.wait_for_line(found[-1], "listening on", 30)
        addresses.append(address)
    return Nodes(*found, f"{addresses[1]},{addresses[0]}", addresses)


def all_reduces(network, hosts, nodes, variables=None, during=lambda: None):
    """Gbit/s per rank, and microseconds of processor time per fragment of server, switch and rank.

    during: called once the ranks have started; may return a function to call after they have ended.
    """
    variables = {
        "WORLD_SIZE": len(hosts), "ATP_ROUTE": nodes.route, "ATP_VALUES_PER_FRAGMENT": VALUES,
        "ATP_JOB": time.monotonic_ns() % 2**32, "ATP_INCARNATION": 1, **(variables or {}),
    }  # fmt: skip
    processes = (nodes.server, nodes.switch)
    before = [cpu_us(process) for process in processes], _children_us()
    words = ("-b", SIZE, "-e", SIZE, "-n", ITERATIONS, "-w", WARM_UP, "--digest")
    ranks = [
        host.start(ATP, "bench", "allreduce", *words, env={**variables, "RANK": rank})
        for rank, host in enumerate(hosts)
    ]
    after = during()
    for rank in ranks:
        network.wait(rank, LIMIT_S)
    said = [rank.log.read_text() for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed:\n" + "\n".join(said))
    ranks_us = _children_us() - before[1]
    nodes_us = [cpu_us(one) - old for one, old in zip(processes, before[0], strict=True)]
    if after is not None:
        after()
    us = float(re.search(rf"^\s*{SIZE}\s.*$", said[0], re.MULTILINE)[0].split()[4])
    return {
        "Gbit/s": SIZE * 8 / us / 1e3,
        "server": nodes_us[0] / FRAGMENTS,
        "switch": nodes_us[1] / FRAGMENTS,
        "rank": ranks_us / len(hosts) / FRAGMENTS,
    }


def cpu_us(process):
    """Processor time of a process's threads: `ip netns exec` becomes the program that it runs.

    From the scheduler, which counts nanoseconds; /proc/PID/stat has ticks of 10 ms.
    """
    tasks = Path(f"/proc/{process.pid}/task").iterdir()
    return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e3


def _children_us():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used.ru_utime + used.ru_stime) * 1e6


def alternate(ways, rounds):
    """Runs each way once per round, in alternating order: way -> results."""
    found = {way: [] for way in ways}
    for number in range(rounds):
        for way in list(ways) if number % 2 == 0 else list(reversed(ways)):
            found[way].append(ways[way]())
            print(f"round {number + 1} of {rounds}, {way}: {found[way][-1]}", flush=True)
    return found


def summary(found, base):
    """A row per way: medians, and its speed and the nodes' costs relative to `base`, per round."""
    rows = []
    for way, results in found.items():
        pairs = list(zip(results, found[base], strict=True))
        ratios = [one["Gbit/s"] / other["Gbit/s"] for one, other in pairs]
        medians = {name: statistics.median(r[name] for r in results) for name in results[0]}
        relative = {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
        for role in ("server", "switch"):
            costs = sorted(one[role] / other[role] for one, other in pairs)
            relative[f"{role}'s cost"] = statistics.median(costs)
            relative[f"{role}'s spread"] = costs[-1] - costs[0]
        rows.append({"": way} | {k: round(v, 3) for k, v in (medians | relative).items()})
    return rows


def show(rows, base, folder, name):
    """Prints the rows as a table, and writes them to `name`.csv in the folder."""
    print(f"{'':22}Gbit/s   us per fragment: server  switch  a rank   / {base}")
    for row in rows:
        print(
            f"{row['']:22}{row['Gbit/s']:6.3f}{row['server']:25.2f}{row['switch']:8.2f}"
            f"{row['rank']:8.2f}   {row['median']:.3f} ({row['least']:.3f} to {row['most']:.3f})"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{name}.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
