"""Compares every collective over atp and over Gloo: the same tensors, links and processes.

    .venv/bin/python -m experiments.collectives [FOLDER]

Rounds alternate between the two (A, B, A, B, ...), and medians are reported. The slowest rank
determines the time of a round, and every result is checked to the last bit. First the ranks share
this machine, so the processor is the limit. Then each rank has a network namespace with a link of
--mbit in each direction, and TCP uses cubic for both. In that case atp has no switch or server but
sums over a ring, so both use the same links. Writes collectives.csv and collectives.svg to FOLDER
(default: out/collectives).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.collectives.rank import PATHS, SHARES
from experiments.report import plt
from lab.network import Network
from lab.ranks import KEEP_MEMORY, PYTHON, run_ranks

RANK = Path(__file__).with_name("rank.py")
HEADERS = 1514 / 1448  # of Ethernet, IP and TCP
LIMIT_S = 3600


def run_locally(ranks, arguments, folder):
    words = rank_words(arguments, f"file://{folder}/store", folder / "result.json")
    environment = {
        **os.environ,
        **{name: str(value) for name, value in KEEP_MEMORY.items()},
        "PYTHONPATH": os.pathsep.join([str(PYTHON), str(report.REPOSITORY)]),
        "OMP_NUM_THREADS": "1",
        "WORLD_SIZE": str(ranks),
    }
    running = [
        subprocess.Popen(words, env={**environment, "RANK": str(rank)}) for rank in range(ranks)
    ]
    if any([rank.wait() for rank in running]):
        raise SystemExit("a rank failed; see its error above")


def run_in_namespaces(ranks, arguments, folder):
    names = [f"h{rank}" for rank in range(ranks)]
    with Network(folder, {"rack": names}) as network:
        for name in names:
            network.shape_host(name, arguments.mbit)
        meet = f"tcp://{network['h0'].address}:29600"
        words = rank_words(arguments, meet, folder / "result.json")
        ring = {**KEEP_MEMORY, "ATP_ALGORITHM": "ring"}
        run_ranks(network, words, LIMIT_S, env=ring)


def rank_words(arguments, meet, result):
    words = (sys.executable, RANK, meet, result, arguments.rounds, arguments.budget)
    return [str(word) for word in (*words, ",".join(arguments.collectives), *arguments.sizes)]


def measure(where, ranks, arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (run_locally if where == "one host" else run_in_namespaces)(ranks, arguments, folder)
        return json.loads((folder / "result.json").read_text())


def summarize(where, ranks, measured, arguments):
    """One row per collective and size: medians, their spread, and the bound of the links."""
    of = {(name, size, path): times for name, size, path, times in measured["rows"]}
    rows = []
    for name, size in dict.fromkeys((name, size) for name, size, _ in of):
        times = {path: of[name, size, path] for path in PATHS}
        ratios = [gloo / ours for ours, gloo in zip(times["atp"], times["gloo"], strict=True)]
        bound = SHARES[name](ranks) * size * HEADERS / (arguments.mbit * 1e6 / 8)
        rows.append(
            {
                "where": where,
                "ranks": ranks,
                "collective": name,
                "bytes": size,
                "rounds": len(ratios),
                "atp_ms": statistics.median(times["atp"]) * 1e3,
                "gloo_ms": statistics.median(times["gloo"]) * 1e3,
                "gloo_over_atp": statistics.median(times["gloo"]) / statistics.median(times["atp"]),
                "least": min(ratios),
                "most": max(ratios),
                "bound_ms": 0 if where == "one host" else bound * 1e3,
            }
        )
    return rows


def print_table(rows, arguments):
    print(f"float32, medians of up to {arguments.rounds} alternating rounds; Gloo's time / atp's")
    print(f"bound: time of the fullest link, S/B with headers (x {HEADERS:.3f})")
    head = f"{'where':10} {'ranks':>5} {'collective':15} {'bytes':>11} {'atp ms':>9} {'Gloo ms':>9}"
    print(f"{head} {'Gloo/atp':>8} {'min':>6} {'max':>6} {'bound ms':>9}")
    for row in rows:
        bound = f"{row['bound_ms']:9.2f}" if row["bound_ms"] else f"{'-':>9}"
        print(
            f"{row['where']:10} {row['ranks']:5} {row['collective']:15} {row['bytes']:11,} "
            f"{row['atp_ms']:9.3f} {row['gloo_ms']:9.3f} {row['gloo_over_atp']:8.2f} "
            f"{row['least']:6.2f} {row['most']:6.2f} {bound}"
        )


def plot(rows):
    """A row per place and a column per number of ranks; a barrier has no size."""
    places = list(dict.fromkeys(row["where"] for row in rows))
    numbers_of_ranks = list(dict.fromkeys(row["ranks"] for row in rows))
    figure, axes = plt.subplots(
        len(places),
        len(numbers_of_ranks),
        figsize=(3.2 * len(numbers_of_ranks) + 1.8, 3.2 * len(places)),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    sized = [name for name in dict.fromkeys(row["collective"] for row in rows) if name != "barrier"]
    for line, where in zip(axes, places, strict=True):
        for axis, ranks in zip(line, numbers_of_ranks, strict=True):
            for number, name in enumerate(sized):
                here = (where, ranks, name)
                own = [r for r in rows if (r["where"], r["ranks"], r["collective"]) == here]
                axis.loglog(
                    [row["bytes"] for row in own],
                    [row["gloo_over_atp"] for row in own],
                    label=name,
                    color=f"C{number}",
                    marker="os^vD<>ph"[number],
                    markersize=4,
                )
            axis.axhline(1, color="k", linewidth=0.8)
            axis.set(title=f"{where}, {ranks} ranks")
            axis.grid(alpha=0.3)
        line[0].set_ylabel("Gloo's time / atp's")
    for axis in axes[-1]:
        axis.set_xlabel("bytes")
    figure.legend(*axes[0][0].get_legend_handles_labels(), loc="outside right center", fontsize=8)
    return figure


def numbers(text):
    return [int(number) for number in text.split(",")]


def names(text):
    found = text.split(",")
    if unknown := set(found) - set(SHARES):
        raise argparse.ArgumentTypeError(
            f"found {', '.join(sorted(unknown))}, expected some of {', '.join(SHARES)}"
        )
    return found


def parse():
    parser = report.parser(__doc__, "out/collectives")
    parser.add_argument("--ranks", type=numbers, default=[2, 4, 8], help="N,N,... (default: 2,4,8)")
    parser.add_argument(
        "--where",
        choices=["one host", "links", "both"],
        default="both",
        help="processes on this machine, or namespaces with links (default: both)",
    )
    parser.add_argument(
        "--collectives",
        type=names,
        default=list(SHARES),
        metavar="NAME,NAME,...",
        help="only these (default: all)",
    )
    parser.add_argument(
        "--mbit", type=int, default=1000, help="bandwidth of each rank's link (default: 1000)"
    )
    parser.add_argument(
        "--rounds", type=int, default=9, help="maximum number of rounds (default: 9)"
    )
    parser.add_argument(
        "--budget",
        type=float,
        default=6,
        help="seconds per row, but at least three rounds (default: 6)",
    )
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=[2**12, 2**14, 2**16, 2**18, 2**20, 2**22, 2**24, 2**26],
        help="tensor sizes in bytes, N,N,... (default: 4 KiB to 64 MiB)",
    )
    return parser.parse_args()


def main():
    arguments = parse()
    links = f"{arguments.mbit} Mbit/s"
    places = {"one host": ["one host"], "links": [links], "both": ["one host", links]}
    rows = []
    for where in places[arguments.where]:
        for ranks in arguments.ranks:
            measured = measure(where, ranks, arguments)
            rows += summarize(where, ranks, measured, arguments)
            print(f"{where}, {ranks} ranks: measured", file=sys.stderr)
    print_table(rows, arguments)
    report.publish(f"{arguments.folder}/collectives", rows, plot(rows))


if __name__ == "__main__":
    main()
