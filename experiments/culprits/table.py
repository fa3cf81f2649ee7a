"""The trials of one or several runs, and their table."""

import csv
import json
import os
import statistics
from pathlib import Path

from experiments.culprits.disturbances import DISTURBANCES

PLACES = ("status", "metrics", "page")
HEADINGS = ("", "trials", "named", "by ranks", "slowest", "`atp status`", "metrics", "page",
            "wrong names")  # fmt: skip


class Trials:
    """The file to which each trial is added as it ends: an interrupted run keeps what it has."""

    def __init__(self, folder):
        self.path = Path(folder) / "trials.jsonl"
        self.path.write_text("")

    def add(self, name, found):
        line = {"name": name, "load": round(os.getloadavg()[0], 1), **found}
        with open(self.path, "a") as out:
            out.write(json.dumps(line) + "\n")
        return line


def read(folders):
    trials = []
    for folder in folders:
        path = Path(folder) / "trials.jsonl"
        if not path.exists():
            raise SystemExit(f"{path}: no such file; give folders into which this program wrote")
        trials += [json.loads(line) for line in path.read_text().splitlines()]
    return trials


def text_of(seconds):
    """Median and slowest of the trials in which it was named, and in how many it was not."""
    named = [one for one in seconds if one is not None]
    if not named:
        return "never"
    missing = f", {len(seconds) - len(named)} never" if len(named) < len(seconds) else ""
    return f"{statistics.median(named):.1f} s (at most {max(named):.1f}{missing})"


def row_of(disturbance, found):
    asked = {"ranks": disturbance.told, **dict.fromkeys(PLACES, disturbance.in_places)}
    columns = {
        what: text_of([one[what] for one in found]) if asked[what] else "not asked"
        for what in asked
    }
    return {
        "": disturbance.name,
        "trials": len(found),
        "named": ", ".join(sorted({*disturbance.told.values()})) or "nobody",
        "by ranks": ", ".join(map(str, sorted(disturbance.told))),
        **columns,
        "wrong names": sum(len(one["wrong"]) for one in found),
    }


def publish(trials, folder):
    """Prints the table and the wrong names, and writes culprits.csv; returns the wrong names."""
    of = {one.name: [t for t in trials if t["name"] == one.name] for one in DISTURBANCES}
    rows = [row_of(one, of[one.name]) for one in DISTURBANCES if of[one.name]]
    wrong = [f"{trial['name']}: {line}" for trial in trials for line in trial["wrong"]]
    print(f"| {' | '.join(HEADINGS)} |\n" + "|" + "---|" * len(HEADINGS))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row.values()) + " |")
    if trials:
        loads = [trial["load"] for trial in trials]
        print(f"load averages: {min(loads)} to {max(loads)}, median {statistics.median(loads):.1f}")
        with open(Path(folder) / "culprits.csv", "w", newline="") as out:
            writer = csv.DictWriter(out, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    print("\n".join(wrong))
    return wrong
