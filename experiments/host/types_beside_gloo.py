"""All-reduces of every type within one host: in shared memory and over Gloo, alternately.

    .venv/bin/python -m experiments.host.types_beside_gloo [FOLDER]

Like memory_beside_gloo.py. Prints how many times Gloo's median is shared memory's, and writes
types-beside-gloo.csv into FOLDER (default: out/host).
"""

import statistics
from pathlib import Path

from experiments import report
from experiments.host.memory_beside_gloo import measure, parse

TYPES = "float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool".split()
PATHS = ("memory", "gloo")


def row(ranks, kind, size, seconds):
    """Milliseconds, with minimum and maximum; none for Gloo if it has no sum of the type."""
    taken = {"ranks": ranks, "type": kind, "bytes": size}
    for path in PATHS:
        own = [1e3 * each for each in seconds[path]]
        for name, of in (("ms", statistics.median), ("least_ms", min), ("most_ms", max)):
            taken[f"{path}_{name}"] = of(own) if own else ""
    gloo = taken["gloo_ms"]
    taken["gloo_over_memory"] = gloo / taken["memory_ms"] if gloo else ""
    return taken


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def print_table(rows):
    columns = sorted({(row["ranks"], row["bytes"]) for row in rows})
    cells = {(row["type"], row["ranks"], row["bytes"]): row["gloo_over_memory"] for row in rows}
    print("| type |" + "".join(f" N = {n}, {size_text(size)} |" for n, size in columns))
    print("|---|" + "---|" * len(columns))
    for kind in dict.fromkeys(row["type"] for row in rows):
        own = (cells[kind, *column] for column in columns)
        print(f"| {kind} |" + "".join(f" {cell:.3g} |" if cell else " – |" for cell in own))


def main():
    arguments = parse(__doc__, ranks=(2, 4))
    rows = [
        row(ranks, kind, size, seconds)
        for ranks in arguments.ranks
        for kind, size, seconds in measure(ranks, arguments, TYPES, PATHS)
    ]
    print_table(rows)
    table = Path(arguments.folder, "types-beside-gloo.csv")
    table.parent.mkdir(parents=True, exist_ok=True)
    report.write_table(table, rows)
    print(f"wrote {table}")


if __name__ == "__main__":
    main()
