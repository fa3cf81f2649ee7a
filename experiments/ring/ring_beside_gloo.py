"""Compares our ring with Gloo: the same collectives on the same links, alternately.

    .venv/bin/python -m experiments.ring.ring_beside_gloo [FOLDER]

Each rank is a process in its own network namespace, with a link of --mbit in each direction. Rounds
alternate between the two (A, B, A, B, ...); the time of a round is that of the slowest rank, and
the median is reported. Every result is compared with the true sum. Writes ring-beside-gloo.csv and
ring-beside-gloo.svg into FOLDER (default: out/ring). With --local the ranks use this machine's
loopback, where the processor is the limit.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.report import plt
from experiments.ring.ring_rank import PATHS, SHARES
from lab.network import Network
from lab.ranks import PYTHON, run_ranks

RANK = Path(__file__).with_name("ring_rank.py")
HEADERS = 1514 / 1448  # of Ethernet, IP and TCP
LIMIT_S = 900


def run_locally(arguments, folder):
    words = rank_words(arguments, f"file://{folder}/store", folder / "result.json")
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), "WORLD_SIZE": str(arguments.ranks)}
    ranks = [
        subprocess.Popen(words, env={**environment, "RANK": str(rank)})
        for rank in range(arguments.ranks)
    ]
    if any([rank.wait() for rank in ranks]):
        raise SystemExit("a rank failed; see its error above")


def run_in_namespaces(arguments, folder):
    names = [f"h{rank}" for rank in range(arguments.ranks)]
    with Network(folder, {"rack": names}) as network:
        for name in names:
            network.shape_host(name, arguments.mbit)
        meet = f"tcp://{network['h0'].address}:29600"
        run_ranks(network, rank_words(arguments, meet, folder / "result.json"), LIMIT_S)


def rank_words(arguments, meet, result):
    words = (sys.executable, RANK, meet, result, arguments.rounds, *arguments.sizes)
    return [str(word) for word in words]


def measure(arguments):
    """Rows of (collective, bytes, path, seconds of each round)."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (run_locally if arguments.local else run_in_namespaces)(arguments, folder)
        return json.loads((folder / "result.json").read_text())


def summarize(measured, arguments):
    """A row per collective and size: medians, and the minimum time that the links allow."""
    medians = {(name, size, path): statistics.median(s) for name, size, path, s in measured}
    rows = []
    for name, share in SHARES.items():
        for size in arguments.sizes:
            ring, gloo = (medians[name, size, path] for path in PATHS)
            bound = share(arguments.ranks) * size * HEADERS / (arguments.mbit * 1e6 / 8)
            rows.append(
                {
                    "collective": name,
                    "bytes": size,
                    "ring_ms": ring * 1e3,
                    "gloo_ms": gloo * 1e3,
                    "gloo_over_ring": gloo / ring,
                    "bound_ms": 0 if arguments.local else bound * 1e3,
                }
            )
    return rows


def print_table(rows, arguments):
    where = "loopback" if arguments.local else f"links of {arguments.mbit} Mbit/s"
    rounds = f"medians of {arguments.rounds} alternating rounds"
    print(f"{arguments.ranks} ranks, {where}, float32, {rounds}")
    print(f"bound: (N-1)/N * S/B, an all-reduce twice that, with headers (x {HEADERS:.3f})")
    print(f"{'collective':15} {'bytes':>10} {'ring ms':>9} {'Gloo ms':>9} {'Gloo/ring':>9}", end="")
    print(f" {'bound ms':>9} {'ring/bound':>10}")
    for row in rows:
        ratio = f"{row['ring_ms'] / row['bound_ms']:10.3f}" if row["bound_ms"] else f"{'-':>10}"
        print(
            f"{row['collective']:15} {row['bytes']:10,} {row['ring_ms']:9.2f} "
            f"{row['gloo_ms']:9.2f} {row['gloo_over_ring']:9.2f} {row['bound_ms']:9.2f} {ratio}"
        )


def plot(rows, arguments):
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for axis, name in zip(axes, SHARES, strict=True):
        own = [row for row in rows if row["collective"] == name]
        sizes = [row["bytes"] / 2**20 for row in own]
        axis.loglog(sizes, [row["gloo_ms"] for row in own], "s--", color="0.45", label="Gloo")
        axis.loglog(sizes, [row["ring_ms"] for row in own], "o-", color="C0", label="ring")
        if not arguments.local:
            axis.loglog(sizes, [row["bound_ms"] for row in own], ":", color="k", label="bound")
        axis.set(title=name, xlabel="tensor, MiB")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time, ms")
    axes[0].legend()
    return figure


def parse():
    parser = report.parser(__doc__, "out/ring")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument(
        "--mbit", type=int, default=400, help="bandwidth of a rank's link in Mbit/s (default: 400)"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--local", action="store_true", help="on loopback, without namespaces")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[2**14, 2**16, 2**18, 2**20, 2**22, 2**24],
        help="tensor sizes in bytes, N,N,...",
    )
    return parser.parse_args()


def main():
    arguments = parse()
    rows = summarize(measure(arguments), arguments)
    print_table(rows, arguments)
    report.publish(f"{arguments.folder}/ring-beside-gloo", rows, plot(rows, arguments))


if __name__ == "__main__":
    main()
