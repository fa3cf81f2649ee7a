"""All-reduces of every type within one host: in shared memory and over Gloo, alternately.

    .venv/bin/python -m experiments.host.types_beside_gloo [FOLDER]

Like memory_beside_gloo.py. Prints how many times Gloo's time is that of shared memory, and the same
for the processor time of all ranks, which other programs on the machine change less; of both the
medians. Writes types-beside-gloo.csv into FOLDER (default: out/host).
"""

import statistics
from pathlib import Path

from experiments import report
from experiments.host.memory_beside_gloo import measure, parse

TYPES = "float32 bfloat16 float16 float64 int64 int32 int16 int8 uint8 bool".split()
PATHS = ("memory", "gloo")


def row(ranks, kind, size, taken):
    """Milliseconds, with minimum and maximum; none for Gloo if it has no sum of the type."""
    result = {"ranks": ranks, "type": kind, "bytes": size}
    for i, time in enumerate(("", "processor_")):
        for path in PATHS:
            own = [1e3 * each[i] for each in taken[path]]
            for name, of in (("", statistics.median), ("least_", min), ("most_", max)):
                result[f"{path}_{time}{name}ms"] = of(own) if own else ""
        gloo = result[f"gloo_{time}ms"]
        result[f"{time}ratio"] = gloo / result[f"memory_{time}ms"] if gloo else ""
    return result


def size_text(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def print_table(rows):
    sizes = sorted({row["bytes"] for row in rows})
    columns = "".join(f"{size_text(size):>8}" for size in sizes)
    print(f"ranks type    {'time:':>8}{columns}  processor:{columns}")
    for ranks, kind in dict.fromkeys((row["ranks"], row["type"]) for row in rows):
        line = f"{ranks:5} {kind:8}{'':8}"
        for ratio in ("ratio", "processor_ratio"):
            own = [row[ratio] for row in rows if (row["ranks"], row["type"]) == (ranks, kind)]
            line += "".join(f"{each:8.2f}" if each else f"{'-':>8}" for each in own)
            line += f"{'':12}" if ratio == "ratio" else ""
        print(line)


def main():
    arguments = parse(__doc__, ranks=(2, 4))
    rows = [
        row(ranks, kind, size, taken)
        for ranks in arguments.ranks
        for kind, size, taken in measure(ranks, arguments, TYPES, PATHS)
    ]
    print_table(rows)
    table = Path(arguments.folder, "types-beside-gloo.csv")
    table.parent.mkdir(parents=True, exist_ok=True)
    report.write_table(table, rows)
    print(f"wrote {table}")


if __name__ == "__main__":
    main()
