"""Time and memory of one plan by number of devices, on four levels.

    .venv/bin/python -m experiments.planner.planning_cost [FOLDER]

Runs `atp plan best` as a process, and writes planning-cost.csv and planning-cost.svg into FOLDER
(default: out/planner). It is started by peak_memory.cc, compiled with $CXX or c++, because children
of Python inherit Python's high-water mark.
"""

import os
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

from experiments import report
from experiments.report import BUILD, plt

# Powers of two from 16 to 2^20 devices, distributed over four levels from the bottom up.
EXPONENTS = range(4, 21, 2)
REPEATS = 5
MODEL = ["--hidden", "65536", "--layers", "100", "--heads", "4096", "--batch", "4096"]


def cluster_file(exponent):
    """Four levels with 2^exponent devices in total."""
    shares = [exponent // 4 + (1 if level < exponent % 4 else 0) for level in range(4)]
    lines = ["levels:"]
    for level, share in enumerate(shares):
        kind = "full" if level == 3 else "switch"
        lines.append(
            f"  - {{name: level {level + 1}, count: {2**share}, kind: {kind}, "
            f"bandwidth: {100 * 2**level} GB/s per direction, latency: 5 us, "
            + ("aggregation: {}}" if kind == "switch" and level == 0 else "}")
        )
    return "\n".join(lines) + "\n"


def compile_starter(folder):
    """Compiles peak_memory.cc in `folder`, statically, to make it as small as possible."""
    program = Path(folder, "peak_memory")
    source = Path(__file__).with_name("peak_memory.cc")
    compiler = os.environ.get("CXX", "c++")
    subprocess.run([compiler, "-O2", "-static", "-o", program, source], check=True)
    return program


def run(starter, arguments):
    """Seconds and peak MiB of one process."""
    with tempfile.NamedTemporaryFile("r") as peak:
        begin = time.perf_counter()
        subprocess.run([starter, peak.name, *arguments], check=True, stdout=subprocess.DEVNULL)
        seconds = time.perf_counter() - begin
        return seconds, int(peak.read()) / 1024


def measure():
    program = str(BUILD / "bin" / "atp")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        starter = compile_starter(folder)
        for exponent in EXPONENTS:
            path = Path(folder, f"{exponent}.yaml")
            path.write_text(cluster_file(exponent))
            runs = [
                run(starter, [program, "plan", "best", "--cluster", str(path), *MODEL])
                for _ in range(REPEATS)
            ]
            seconds = statistics.median(run[0] for run in runs)
            memory = max(run[1] for run in runs)
            rows.append({"devices": 2**exponent, "seconds": seconds, "memory_mib": memory})
            print(f"{2**exponent:>8} devices {seconds * 1e3:9.1f} ms {memory:7.1f} MiB")
    return rows


def plot(rows):
    figure, (time_axis, memory_axis) = plt.subplots(1, 2, figsize=(9, 3.6))
    devices, seconds, memory = zip(*(row.values() for row in rows), strict=True)
    time_axis.loglog(devices, seconds, "o-", color="#0072b2")
    time_axis.axhline(1, color="#d55e00", linestyle="--", linewidth=1)
    time_axis.axvline(1024, color="#999999", linestyle=":", linewidth=1)
    time_axis.set_ylabel("seconds, the whole process")
    memory_axis.semilogx(devices, memory, "o-", color="#009e73")
    memory_axis.set_ylabel("peak memory, MiB")
    memory_axis.set_ylim(0, 1.3 * max(memory))
    for axis in (time_axis, memory_axis):
        axis.set_xlabel("devices, on four levels")
        axis.grid(alpha=0.3)
    figure.suptitle("atp plan best: time and memory of one plan")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/planner").parse_args().folder
    rows = measure()
    report.publish(f"{folder}/planning-cost", rows, plot(rows))


if __name__ == "__main__":
    main()
