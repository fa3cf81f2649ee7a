"""All-reduces within one host: in shared memory, over our ring, and over Gloo, alternately.

    .venv/bin/python -m experiments.host.memory_beside_gloo [FOLDER]

The ranks are processes on this machine. Rounds alternate between the three; the time of a round is
that of the slowest rank, and the median is reported. Every result is checked. Writes
memory-beside-gloo.csv and .svg into FOLDER (default: out/host).
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.host.host_rank import PATHS
from experiments.report import plt
from lab.ranks import PYTHON

RANK = Path(__file__).with_name("host_rank.py")


def measure(ranks, arguments, types=("float32",), paths=PATHS):
    """Rows of (type, bytes, {path: [seconds, processor time] of each round})."""
    with tempfile.TemporaryDirectory() as name:
        result = Path(name, "result.json")
        words = [sys.executable, RANK, f"file://{name}/store", result, arguments.rounds]
        words = [str(word) for word in (*words, ",".join(types), ",".join(paths), *arguments.sizes)]
        environment = {**os.environ, "PYTHONPATH": str(PYTHON), "WORLD_SIZE": str(ranks)}
        processes = [
            subprocess.Popen(words, env={**environment, "RANK": str(rank)}) for rank in range(ranks)
        ]
        if any([process.wait() for process in processes]):
            raise SystemExit("a rank failed; see its error above")
        return json.loads(result.read_text())


def row(ranks, size, taken):
    """Medians in milliseconds, our spread, and the others' times relative to ours."""
    seconds = {path: [each for each, _ in taken[path]] for path in PATHS}
    medians = {path: statistics.median(seconds[path]) for path in PATHS}
    least, most = min(seconds["memory"]), max(seconds["memory"])
    return {
        "ranks": ranks,
        "bytes": size,
        **{f"{path}_ms": medians[path] * 1e3 for path in PATHS},
        "memory_least_ms": least * 1e3,
        "memory_most_ms": most * 1e3,
        **{f"{path}_over_memory": medians[path] / medians["memory"] for path in PATHS[1:]},
    }


def print_rows(rows):
    print("ranks      bytes  memory ms (min to max)          ring ms    Gloo ms ring/m. Gloo/m.")
    for r in rows:
        print(
            f"{r['ranks']:5} {r['bytes']:10,} {r['memory_ms']:10.3f} "
            f"({r['memory_least_ms']:.3f} to {r['memory_most_ms']:.3f}) "
            f"{r['ring_ms']:10.3f} {r['gloo_ms']:10.3f} "
            f"{r['ring_over_memory']:7.2f} {r['gloo_over_memory']:7.2f}",
            flush=True,
        )


def plot(rows):
    numbers = sorted({row["ranks"] for row in rows})
    figure, axes = plt.subplots(
        1, len(numbers), figsize=(11, 3.6), sharey=True, squeeze=False, layout="constrained"
    )
    for axis, ranks in zip(axes[0], numbers, strict=True):
        own = [row for row in rows if row["ranks"] == ranks]
        sizes = [row["bytes"] / 2**10 for row in own]
        for path, style in zip(PATHS, ("o-", "^:", "s--"), strict=True):
            axis.loglog(sizes, [row[f"{path}_ms"] for row in own], style, label=path)
        axis.set(title=f"{ranks} ranks", xlabel="tensor, KiB")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("time of an all-reduce, ms")
    axes[0][0].legend()
    return figure


def parse(text=__doc__, ranks=(2, 4, 8)):
    def numbers(text):
        return [int(number) for number in text.split(",")]

    parser = report.parser(text, "out/host")
    parser.add_argument("--ranks", type=numbers, default=ranks, help="numbers of ranks, N,N,...")
    parser.add_argument("--rounds", type=int, default=15, help="timed rounds (default: 15)")
    parser.add_argument(
        "--sizes",
        type=numbers,
        default=[2**12, 2**16, 2**20, 2**24],
        help="tensor sizes in bytes, N,N,...",
    )
    return parser.parse_args()


def main():
    arguments = parse()
    rows = []
    for ranks in arguments.ranks:
        rows += [row(ranks, size, taken) for _, size, taken in measure(ranks, arguments)]
    print_rows(rows)
    report.publish(f"{arguments.folder}/memory-beside-gloo", rows, plot(rows))


if __name__ == "__main__":
    main()
