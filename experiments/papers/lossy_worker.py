"""One worker that loses packets, in real processes: the product beside the simulated Fig. 10.

Four workers, a switch and a server are hosts of their own (network namespaces). One worker loses a
share of the packets that it gets, and the switch the same share of those that it sends. Nothing is
segmented by the kernel, so that a loss is of one packet, as in a real network.
"""

import tempfile
from pathlib import Path

from experiments.congestion.shared_link import (
    measure,
    start_node,
    start_ranks,
    verify,
    wait_until_begun,
)
from experiments.papers.entry import summary
from experiments.report import BUILD
from lab.network import Network

WORKERS = 4
MBIT = 100
WINDOW = 256
RATES = (0, 1e-3, 1e-2)
MIB_PER_S = 12  # more than the link carries, so that the ranks outlast the measurement


def lose(network, rate):
    """Of the packets to and from w0, as they arrive."""
    some = f"numgen random mod 100000 < {round(rate * 100_000)}"
    for host, which in (
        ("w0", ""),
        ("switch", f"ip saddr {network['w0'].address}"),
    ):
        network[host].exec("nft", "add table inet lossy")
        network[host].exec("nft", "add chain inet lossy in { type filter hook input priority 0 ; }")
        rule = f"meta l4proto udp {which} {some} counter drop"
        network[host].exec("nft", f"add rule inet lossy in {rule}")


def goodput(rate, seconds):
    """Mbit/s of sums, every element of which every rank has checked."""
    atp, hosts = BUILD / "bin" / "atp", [f"w{rank}" for rank in range(WORKERS)]
    with (
        tempfile.TemporaryDirectory() as name,
        Network(Path(name), {"rack": ["switch", "server", *hosts]}) as network,
    ):
        for host in hosts:
            network.shape_host(host, MBIT)
        network.without_segmentation()
        server = start_node(network, atp, "server", "server", "--window", WINDOW)
        upstream = f"{network['server'].address}/32"
        start_node(network, atp, "switch", "switch", "--upstream", upstream)
        if rate > 0:
            lose(network, rate)
        iterations = round(MIB_PER_S * (seconds + 3))
        ranks = start_ranks(network, atp, 1, hosts, "server", iterations, "none")
        wait_until_begun([server])
        outcome = measure(network, [server], ranks, None, seconds)
        verify(network, ranks, outcome, 30 * (seconds + 3))
    if not outcome.verified:
        raise RuntimeError(f"a sum was wrong, or a rank failed:\n{outcome.text[-2000:]}")
    return outcome.goodput[0]


def kept(runs, seconds):
    """A row per loss rate: goodput, its extremes, and its share of that without loss."""
    rows = [
        {"loss": rate, "goodput_gbit": goodput(rate, seconds) / 1000, "run": run}
        for run in range(runs)
        for rate in RATES
    ]
    table = summary(rows, ["loss"], ["goodput_gbit"])
    for row in table:
        row["kept"] = row["goodput_gbit"] / table[0]["goodput_gbit"]
    return table
