"""Times all-reduces over atp, Gloo and Open MPI's ring alternately on equal links: `make bench`.

    .venv/bin/python -m experiments.bench [--short] [--only NAME,...] [--without-mpi] [FOLDER]

Each rank is a process in its own network namespace, whose link is shaped in both directions. All
implementations alternate (A, B, A, B, ...). Each is timed from a common instant until the last
rank has its result, and every result is compared with the true sum. Writes bench.json after each
workload, and the pictures at the end, into FOLDER (default: out/bench).
"""

import argparse
import dataclasses
import sys
import tempfile
import time

from experiments.bench import openmpi, pictures, tables
from experiments.bench.measure import measure
from experiments.bench.workloads import FULL, SHORT
from lab.requirements import missing
from lab.results import results_folder


def make_parser():
    parser = argparse.ArgumentParser(
        prog="python -m experiments.bench",
        description=__doc__.splitlines()[0],
        epilog="example: python -m experiments.bench --only gigabit-4,host-4 /tmp/results",
    )
    parser.add_argument(
        "folder",
        nargs="?",
        default="out/bench",
        metavar="FOLDER",
        help="folder for the results (default: out/bench)",
    )
    parser.add_argument("--short", action="store_true", help="one small workload of each kind")
    parser.add_argument(
        "--only", metavar="NAME,...", help="only these workloads (--list shows their names)"
    )
    parser.add_argument("--list", action="store_true", help="print the workloads and exit")
    parser.add_argument(
        "--without-mpi", action="store_true", help="omit Open MPI, which then need not be installed"
    )
    return parser


def chosen(arguments):
    workloads = SHORT if arguments.short else FULL
    if arguments.only:
        names = arguments.only.split(",")
        known = {workload.name: workload for workload in workloads}
        if unknown := [name for name in names if name not in known]:
            sys.exit(f"bench: no workload {unknown[0]}; the workloads are {', '.join(known)}")
        workloads = [known[name] for name in names]
    if arguments.without_mpi:
        workloads = [
            dataclasses.replace(
                workload, ways=tuple(way for way in workload.ways if "MPI" not in way)
            )
            for workload in workloads
        ]
    return workloads


def main():
    parser = make_parser()
    arguments = parser.parse_args()
    workloads = chosen(arguments)
    if arguments.list:
        print("\n".join(map(tables.head, workloads)))
        return
    try:  # only now, so that --list or a misspelt workload leaves no folder behind
        results = results_folder(arguments.folder)
    except argparse.ArgumentTypeError as problem:
        parser.error(str(problem))
    if problem := missing("nft"):
        sys.exit(f"bench: {problem}")
    begin = time.monotonic()
    rows = []
    with tempfile.TemporaryDirectory(prefix="atp-bench-") as folder:
        needs_mpi = any("MPI" in way for workload in workloads for way in workload.ways)
        program = openmpi.compile_rank(folder) if needs_mpi else None
        for number, workload in enumerate(workloads, 1):
            print(f"\n[{number}/{len(workloads)}] {tables.head(workload)}", flush=True)
            measured = measure(workload, program)
            tables.add_ratios(measured)
            print(tables.COLUMNS)
            print("\n".join(map(tables.line, measured)), flush=True)
            rows += measured
            table = tables.write(results, rows, arguments)
    written = [table, *pictures.draw(results, rows)]
    print(f"\nwrote in {time.monotonic() - begin:.0f} s: {', '.join(map(str, written))}")


if __name__ == "__main__":
    main()
