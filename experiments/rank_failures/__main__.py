"""Makes one rank of three fail in each call of the torch backend; tabulates what the others say.

    .venv/bin/python -m experiments.rank_failures [--trials N] [--timeout S] [--only CALLS] [FOLDER]

Rank 1 is killed, frozen, missing, or in another collective. The groups sum in the network or over
a ring; each call has a group of its own, and all groups fail at once. Writes the errors of every
rank into FOLDER/rank_failures.csv (default: out/rank_failures), and ends with code 1 if an error
blames a rank other than rank 1, or comes late. docs/use/torch.md has the table.
"""

import csv
import sys

from experiments import report
from experiments.rank_failures.calls import CALLS, FATES, OTHERS
from experiments.rank_failures.job import WAYS, outcomes
from experiments.rank_failures.verdict import fault, kind_of
from experiments.report import BUILD


def words():
    parser = report.parser(__doc__, "out/rank_failures")
    parser.add_argument("--trials", type=int, default=3, help="of each case (default: 3)")
    parser.add_argument("--timeout", type=int, default=8, help="of a call, in seconds (default: 8)")
    parser.add_argument("--only", nargs="+", choices=CALLS, metavar="CALL", help="these calls")
    return parser.parse_args()


def measure(trials, limit_s, names):
    rows = []
    for way in WAYS:
        for fate in FATES:
            for trial in range(trials):
                found = outcomes(BUILD / "bin" / "atp", way, fate, names, limit_s)
                for call in names:
                    for rank in OTHERS:
                        text, seconds = found[rank][call]
                        rows.append(
                            {
                                "way": way,
                                "rank 1": fate,
                                "call": call,
                                "trial": trial,
                                "rank": rank,
                                "seconds": round(seconds, 2),
                                "kind": kind_of(text),
                                "fault": fault(way, fate, call, text, seconds, limit_s) or "",
                                "error": text,
                            }
                        )
    return rows


def cell(rows):
    """What ranks 0 and 2 say, and after how many seconds: the slowest trial's."""
    said = []
    for rank in OTHERS:
        own = [row for row in rows if row["rank"] == rank]
        kinds = " or ".join(sorted({row["kind"] for row in own}))
        said.append((kinds, f"{max(row['seconds'] for row in own):.1f}"))
    (first, seconds), (second, other_seconds) = said
    if first == second:
        return f"{first}: {seconds}, {other_seconds}"
    return f"{first}: {seconds}, {second}: {other_seconds}"


def print_table(rows, way, names):
    print(f"\n| {way} | " + " | ".join(f"rank 1 {fate}" for fate in FATES) + " |")
    print("|---" * (1 + len(FATES)) + "|")
    for call in names:
        own = [row for row in rows if row["way"] == way and row["call"] == call]
        cells = [cell([row for row in own if row["rank 1"] == fate]) for fate in FATES]
        print(f"| {call} | " + " | ".join(cells) + " |")


def main():
    options = words()
    names = options.only or list(CALLS)
    rows = measure(options.trials, options.timeout, names)
    table = options.folder / "rank_failures.csv"
    table.parent.mkdir(parents=True, exist_ok=True)
    with open(table, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for way in WAYS:
        print_table(rows, way, names)
    faults = [row for row in rows if row["fault"]]
    for row in faults:
        about = f"{row['way']}, {row['call']}, rank 1 {row['rank 1']}, rank {row['rank']}"
        print(f"FAULT: {about}: {row['fault']}: {row['error']}")
    print(f"\n{len(rows)} errors, {len(faults)} faults; wrote {table}")
    return 1 if faults else 0


sys.exit(main())
