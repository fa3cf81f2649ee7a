"""Hosts with several ranks: each rank sends separately, or the host sends one sum for all.

    .venv/bin/python -m experiments.host.several_hosts [FOLDER]

Two hosts are network namespaces with links of --mbit in each direction; a switch and a server are
on a third, whose link is not shaped. Runs float32 all-reduces with one rank per host, and with
--ranks per host: with a worker per rank, and with shared memory first. The time of a round is that
of the slowest rank. The bytes are what the first host sent, as counted by its kernel: with the two
barriers around the all-reduce, and with the headers of a train of UDP packets counted once. Every
result is checked. Writes several-hosts.csv and .svg into FOLDER (default: out/host).
"""

import json
import statistics
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.report import plt
from lab.network import Network
from lab.ranks import KEEP_MEMORY, run_ranks

RANK = Path(__file__).with_name("hosts_rank.py")
ATP = report.BUILD / "bin" / "atp"
LIMIT_S = 900


def start_services(network):
    services = network["services"]
    address = services.address
    for role, port, more in (
        ("server", 5500, ()),
        ("switch", 5501, ("--upstream", f"{address}/32")),
    ):
        process = services.start(ATP, role, "--listen", f"{address}:{port}", *more)
        network.wait_for_line(process, "listening on")
    return f"{address}:5501,{address}:5500"


def measure(arguments, ranks, in_memory):
    """The results by rank; the first half of the ranks is on the first host."""
    with tempfile.TemporaryDirectory() as folder:
        with Network(Path(folder), {"rack": ["services", "h0", "h1"]}) as network:
            for name in ("h0", "h1"):
                network.shape_host(name, arguments.mbit)
            env = {
                **KEEP_MEMORY,
                "ATP_ROUTE": start_services(network),
                "ATP_HOST_MEMORY": 1,
                "ATP_HIERARCHY": int(in_memory),
            }
            words = (sys.executable, RANK, arguments.rounds, arguments.bytes)
            hosts = [network[name] for name in ("h0", "h1") for _ in range(ranks)]
            outputs = run_ranks(network, words, LIMIT_S, env, hosts)
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert {rank["in_memory"] for rank in found} == {in_memory}
    return found


def row(arguments, ranks, in_memory):
    found = [rank["rounds"] for rank in measure(arguments, ranks, in_memory)]
    slowest = [max(rank[i]["seconds"] for rank in found) for i in range(arguments.rounds)]
    sent = statistics.median(round["sent"] for round in found[0])
    return {
        "ranks_per_host": ranks,
        "memory_first": int(in_memory),
        "bytes": arguments.bytes,
        "ms": statistics.median(slowest) * 1e3,
        "least_ms": min(slowest) * 1e3,
        "most_ms": max(slowest) * 1e3,
        "sent_by_a_host": sent,
        "sent_over_bytes": sent / arguments.bytes,
    }


def name_of(row):
    way = "memory first" if row["memory_first"] else "a worker each"
    return "1 rank" if row["ranks_per_host"] == 1 else f"{row['ranks_per_host']} ranks, {way}"


def print_rows(rows):
    print("ranks per host            ms (min to max)      sent by a host  over the tensor's bytes")
    for row in rows:
        print(
            f"{name_of(row):22} {row['ms']:7.0f} ({row['least_ms']:.0f} to {row['most_ms']:.0f})"
            f" {row['sent_by_a_host']:15,.0f} {row['sent_over_bytes']:24.3f}"
        )


def plot(rows):
    figure, axis = plt.subplots(figsize=(6, 2.4), layout="constrained")
    axis.barh([name_of(row) for row in rows], [row["sent_over_bytes"] for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel("bytes that a host sends, relative to the tensor's")
    return figure


def parse():
    parser = report.parser(__doc__, "out/host")
    parser.add_argument("--ranks", type=int, default=4, help="ranks per host, in the second part")
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--bytes", type=int, default=2**26, help="tensor size in bytes")
    parser.add_argument(
        "--mbit",
        type=int,
        default=1000,
        help="bandwidth of a host's link in Mbit/s (default: 1000)",
    )
    return parser.parse_args()


def main():
    arguments = parse()
    cases = [(1, False), (arguments.ranks, False), (arguments.ranks, True)]
    rows = [row(arguments, *case) for case in cases]
    print_rows(rows)
    report.publish(f"{arguments.folder}/several-hosts", rows, plot(rows))


if __name__ == "__main__":
    main()
