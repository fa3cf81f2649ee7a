"""Three racks of real processes and one server: what reaches it with two levels, one, or none.

The hosts of Fig. 9 are network namespaces: two workers in each rack, and the server in the third.
Packets are counted twice, by the server and by the kernel on the server's interface, so that no
packet can be missing because the product does not count it.
"""

import json
import tempfile
from pathlib import Path

from experiments.congestion.shared_link import MIB, K, start_node
from experiments.papers.entry import Check, Entry, Outcome, State, summary
from experiments.papers.sweep import bars, triple
from experiments.report import BUILD
from lab.network import Network

ATP = BUILD / "bin" / "atp"
RACKS = {
    "a": ["switch-a", "w0", "w1"],
    "b": ["switch-b", "w2", "w3"],
    "c": ["switch-c", "w4", "w5", "server"],
}
SERVERS_RACK = "c"
RACK_OF = {host: rack for rack, hosts in RACKS.items() for host in hosts}
WORKERS = [host for host in RACK_OF if host.startswith("w")]
LEVELS = {2: "two levels (ATP)", 1: "rack-scale", 0: "no switch"}
WINDOW = 32  # small, so that no packet waits so long for a processor that it is repeated
LIMIT_S = 120


def route(network, worker, levels):
    """From a worker to the server, through this many levels of switches."""
    racks = [RACK_OF[worker]][:levels]
    if levels == 2 and SERVERS_RACK not in racks:
        racks.append(SERVERS_RACK)
    hops = [f"{network[f'switch-{rack}'].address}:5501" for rack in racks]
    return ",".join([*hops, f"{network['server'].address}:5500"])


def start_workers(network, levels, sums):
    size = ("-b", MIB, "-e", MIB, "-n", sums, "-w", 1)
    return [
        network[worker].start(
            *(ATP, "bench", "allreduce", *size),
            env={
                "RANK": rank,
                "WORLD_SIZE": len(WORKERS),
                "ATP_JOB": 1,
                "ATP_INCARNATION": 1,
                "ATP_ROUTE": route(network, worker, levels),
                "ATP_VALUES_PER_FRAGMENT": K,
            },
        )
        for rank, worker in enumerate(WORKERS)
    ]


def packets_at_server(levels, sums):
    """Per fragment: the GRADIENT packets that the server counts, and all that the kernel counts."""
    with tempfile.TemporaryDirectory() as folder, Network(Path(folder), RACKS) as network:
        network.without_segmentation()
        start_node(network, ATP, "server", "server", "--window", WINDOW)
        for rack in RACKS:
            upstream = ("--upstream", f"{network.subnet}.0/24")
            start_node(network, ATP, f"switch-{rack}", "switch", *upstream)
        before = network["server"].counters()["rx_packets"]
        for worker in start_workers(network, levels, sums):
            code, text = network.wait(worker, LIMIT_S)
            if code != 0:
                raise RuntimeError(f"a sum was wrong, or a rank failed:\n{text[-2000:]}")
        arrived = network["server"].counters()["rx_packets"] - before
        address = f"{network['server'].address}:5500"
        counters = json.loads(network["server"].exec(ATP, "status", address, "--json"))["counters"]
    fragments = counters["fragments_completed"]
    repeated = sum(counters[f"drop_{name}"] for name in ("duplicate", "complete", "past_sequence"))
    return {
        "fragments": fragments,
        "packets_to_server": counters["gradients_received"] / fragments,
        "repeats": repeated / fragments,
        "packets_on_interface": arrived / fragments,
    }


def figure_9(size):
    rows = [
        {"levels": levels, "run": run, **packets_at_server(levels, size.of(8, 40))}
        for run in range(size.of(1, 3))
        for levels in LEVELS
    ]
    table = summary(rows, ["levels"], ["packets_to_server", "packets_on_interface", "repeats"])
    at = {row["levels"]: row["packets_to_server"] for row in table}
    kernel = {row["levels"]: row["packets_on_interface"] for row in table}
    return Outcome(
        f"GRADIENT packets at the server per fragment: {at[2]:.3f} with two levels, {at[1]:.3f} "
        f"with aggregation at rack scale, {at[0]:.3f} without a switch. Two levels save "
        f"{1 - at[2] / at[1]:.1%} of the packets that aggregation at rack scale sends to the "
        f"server. The kernel counts {kernel[2]:.3f}, {kernel[1]:.3f} and {kernel[0]:.3f} packets "
        "of all kinds on the server's interface.",
        table,
        f"{len(rows) // len(LEVELS)} runs, with two levels "
        f"{table[0]['packets_to_server_least']:.4f} to {table[0]['packets_to_server_most']:.4f}",
        [
            Check("packets at the server per fragment with two levels", at[2], 0.99, 1.1),
            Check(
                "packets to the server with aggregation at rack scale, "
                "divided by those with two levels",
                at[1] / at[2],
                2.8,
                3.2,
            ),
            Check(
                "packets to the server without a switch, divided by those with two levels",
                at[0] / at[2],
                5.6,
                6.4,
            ),
            Check(
                "packets that the kernel counts on the server's interface with aggregation at "
                "rack scale, divided by those with two levels",
                kernel[1] / kernel[2],
                2.8,
                3.2,
            ),
        ],
        bars(
            list(LEVELS.values()),
            [triple(row, "packets_to_server") for row in table],
            [1, 3, None],
            "packets at the server per fragment",
        ),
    )


ENTRIES = [
    Entry(
        "9-real",
        "Fig. 9 by real processes, §5.2.2: two levels of switches",
        "As for Fig. 9.",
        State.REAL,
        "Real processes repeat a packet now and then, when it has waited longer for a processor "
        "than their time-out.",
        "Two workers are in each of three racks, the server in the third. Nothing limits the "
        "links, and the kernel joins no packets. One job sums tensors of 1 MiB, with 350 values "
        "per packet and windows of 32 packets.",
        "yes",
        figure_9,
    )
]
