"""Two jobs of real processes on few aggregators (Fig. 13a): a switch is shared or partitioned.

Workers, switch and servers are hosts of their own (network namespaces) with shaped links. A
fragment without an aggregator crosses its server's link once per worker.
"""

import itertools
import tempfile
from pathlib import Path

from experiments.congestion.shared_link import (
    MIB,
    PAPERS_SWITCH,
    WIRE,
    Link,
    measure,
    start_node,
    start_ranks,
    verify,
    wait_until_begun,
)
from experiments.papers.entry import Check, Entry, Outcome, State, mean_of, summary
from experiments.papers.sweep import triple
from experiments.report import BUILD, jain, plt
from lab.network import Network

ATP = BUILD / "bin" / "atp"
JOBS, WORKERS, WINDOW = 2, 4, 64
LINK = Link(20, 100_000)
SCHEMES = {"ours": "ours", "paper": "the paper's rules", "static": "static partition"}


def rules(scheme, aggregators):
    """The workers' policy, and the options of the switch and of a server."""
    if scheme == "static":
        region = aggregators // JOBS
        placed = ("--placement", "linear", "--aggregators", region)
        return "none", ("--partition", JOBS), ("--window", region, *placed)
    if scheme == "paper":
        return "paper", PAPERS_SWITCH, ("--window", WINDOW)
    return "aimd", (), ("--window", WINDOW)


def contest(scheme, aggregators, seconds):
    """Mbit/s of sums by job; every element of every sum is checked."""
    policy, of_switch, of_server = rules(scheme, aggregators)
    hosts = [[f"j{job}w{rank}" for rank in range(WORKERS)] for job in range(JOBS)]
    servers = [f"server{job}" for job in range(JOBS)]
    ends = [*sum(hosts, []), *servers]
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": ["switch", *ends]}) as network,
    ):
        for host in ends:
            network.shape_host(host, LINK.mbit, LINK.queue_bytes)
        network.without_segmentation()
        stats = [start_node(network, ATP, server, "server", *of_server) for server in servers]
        own = ("--upstream", f"{network.subnet}.0/24", "--aggregators", aggregators, *of_switch)
        start_node(network, ATP, "switch", "switch", *own)
        most = int(LINK.mbit / WIRE * 1e6 / 8 * (seconds + 5) / MIB) + 1  # sums, at full speed
        ranks = []
        for job in range(JOBS):
            ranks += start_ranks(network, ATP, job + 1, hosts[job], servers[job], most, policy)
        wait_until_begun(stats)
        outcome = measure(network, stats, ranks, None, seconds)
        verify(network, ranks, outcome, 20 * seconds + 60, JOBS)
    if not outcome.verified:
        raise RuntimeError(f"a sum was wrong, or a rank failed:\n{outcome.text[-2000:]}")
    return outcome.goodput


def figure_13a(size):
    counts = size.of([8], [16, 8, 4])
    runs = range(1, size.of(1, 3) + 1)
    rows = []
    for run, n, scheme in itertools.product(runs, counts, SCHEMES):
        found = contest(scheme, n, size.of(5, 10))
        row = {"aggregators": n, "scheme": scheme, "run": run}
        rows.append({**row, "goodput_mbit": sum(found), "jain": jain(found)})
    table = summary(rows, ["aggregators", "scheme"], ["goodput_mbit", "jain"])
    at = {(row["scheme"], row["aggregators"]): row["goodput_mbit"] for row in table}

    def over_static(scheme, n):
        by_run = {
            (row["scheme"], row["run"]): row["goodput_mbit"]
            for row in rows
            if row["aggregators"] == n
        }
        return [by_run[scheme, run] / by_run["static", run] for run in runs]

    few = min(counts)
    ours = {n: over_static("ours", n) for n in counts}
    jains = [row["jain_least"] for row in table if row["scheme"] == "ours"]
    return Outcome(
        "Mbit/s of sums, both jobs together: with ours, the paper's rules and a static partition, "
        "by the number of aggregators: "
        + "; ".join(
            f"{n}: " + ", ".join(f"{at[scheme, n]:.1f}" for scheme in SCHEMES) for n in counts
        )
        + f". Jain's index of ours is at least {min(jains):.3f}.",
        rows,
        f"{len(runs)} runs, ours over the static partition "
        + ", ".join(f"{min(found):.2f} to {max(found):.2f}" for found in ours.values()),
        [
            Check(
                f"goodput of ours, divided by a static partition's, with {few} aggregators",
                mean_of(ours[few]),
                0.85,
                1.1,
            ),
            Check(
                f"goodput of ours, divided by that of the paper's rules, with {few} aggregators",
                at["ours", few] / at["paper", few],
                1.5,
            ),
            Check("Jain's index of ours", min(jains), size.of(0.9, 0.95), 1),
        ],
        plot(table),
    )


def plot(table):
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for scheme, label in SCHEMES.items():
        mine = [row for row in table if row["scheme"] == scheme]
        middle, least, most = zip(*(triple(row, "goodput_mbit") for row in mine), strict=True)
        at = [row["aggregators"] for row in mine]
        (line,) = axes.plot(at, middle, "o-", label=label)
        axes.fill_between(at, least, most, alpha=0.2, color=line.get_color())
    axes.set_xscale("log", base=2)
    axes.set_xticks(at, [str(n) for n in at])
    axes.invert_xaxis()
    axes.set(xlabel="aggregators", ylabel="Mbit/s of sums, both jobs", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return figure


ENTRIES = [
    Entry(
        "13a-real",
        "Fig. 13a by real processes, §5.4.1: few aggregators",
        "As for Fig. 13a.",
        State.REAL,
        "Two cores run eleven processes, so a packet waits in a process, not on a link, and two "
        "jobs keep few fragments in flight: regions of two aggregators are enough for a static "
        "partition. The jobs never pause, so neither leaves aggregators to the other. By the "
        "paper's rules a fragment that collides crosses a server's link four times.",
        "Two jobs of four workers, each with a server of its own, share one switch; links run at "
        "20 Mbit/s. A job sums tensors of 1 MiB. Ours and the paper's rules (as in Fig. 16a) have "
        "windows of at most 64 packets, a static partition (`--partition 2`, linear placement) its "
        "region.",
        "nothing can be gained, since the jobs never pause: nearly as fast as a static partition "
        "(0.93 to 0.98), three times as fast as by the paper's rules",
        figure_13a,
    ),
]
