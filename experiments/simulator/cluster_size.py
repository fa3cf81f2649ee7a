"""Time and memory of the simulator by number of ranks.

    .venv/bin/python -m experiments.simulator.cluster_size [FOLDER]

Runs `atp sim --ranks N` three times per size, prints the medians, and writes cluster-size.csv and
cluster-size.svg into FOLDER (default: out/simulator). Each run checks every sum on every rank.
"""

import csv
import statistics
import subprocess

from experiments import report
from experiments.report import BUILD, plt

SIZES = [32, 64, 128, 256, 512, 1024]
REPEATS = 3


def run(ranks):
    """The numbers of one run."""
    command = [BUILD / "bin" / "atp", "sim", "--ranks", str(ranks)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    (row,) = csv.DictReader(lines)
    return {name: float(value) for name, value in row.items()}


def median_of(runs):
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def plot(rows):
    figure, (time, memory) = plt.subplots(1, 2, figsize=(9, 3.6))
    ranks = [row["ranks"] for row in rows]
    for axes, name, label in (
        (time, "seconds", "seconds for one all-reduce"),
        (memory, "mib", "peak memory, MiB"),
    ):
        axes.plot(ranks, [row[name] for row in rows], marker="o")
        axes.set(xlabel="workers, 32 to a rack", ylabel=label, xscale="log", yscale="log")
        axes.set_xticks(ranks, [f"{int(n):,}" for n in ranks])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    figure.suptitle("Simulating 100 fragments, every sum checked")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/simulator").parse_args().folder
    rows = []
    for ranks in SIZES:
        row = median_of([run(ranks) for _ in range(REPEATS)])
        rows.append(row)
        print(
            f"{ranks:5} ranks in {row['racks']:2.0f} racks: {row['seconds']:6.2f} s, "
            f"{row['mib']:5.0f} MiB, {row['packets']:9,.0f} packets, "
            f"{row['simulated_ms']:7.3f} ms of simulated time",
            flush=True,
        )
    report.publish(f"{folder}/cluster-size", rows, plot(rows))


if __name__ == "__main__":
    main()
