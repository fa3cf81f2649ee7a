"""Runs the same sums in many places and counts the different results.

    .venv/bin/python -m experiments.one_digest [FOLDER] [--short]

Four ranks sum the same tensors (float32, bfloat16, float16, int32; sums, averages, maxima and
minima; in 32 and 16 bits, and exact; every magnitude; NaN and infinity on one rank) in the memory
of one host, on loopback and on hosts in namespaces, with 0, 1 and 3 switches, 1 and 2 servers, 1 %
loss, a switch killed halfway, permuted inputs and split tensors. A training run is interrupted and
resumed. Each rank hashes its results and also reports the product's own digest. The same is done
over Gloo. Writes one-digest.csv into FOLDER (default: out/one-digest); exit status 1 if there is
more than one result.
"""

import csv
import json
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.one_digest.inputs import RANKS
from experiments.one_digest.places import Loopback, Racks
from experiments.one_digest.rank import CHECKPOINT

HOME = Loopback("loopback, 1 switch", ("--switch",))
PLACES = [
    HOME,
    Loopback("the memory of one host"),
    Loopback("loopback, no switch", ("--no-switch",)),
    Loopback("loopback, 350 values per packet", ("--values", 350)),
    Loopback("loopback, 2 servers", ("--servers", 2)),
    Loopback("loopback, colocated servers", ("--colocated-servers",)),
    Racks("racks, no switch", switches=()),
    Racks("racks, 1 switch", switches=("s",)),
    Racks("racks, 3 switches"),
    Racks("racks, 3 switches, 2 servers", servers=2),
    Racks("racks, 3 switches, 1 % loss", loss=True),
    Racks("racks, 3 switches, one killed", killed="a"),
    Racks("racks, 3 switches, 2 servers, 1 % loss, one killed", servers=2, loss=True, killed="b"),
]
SHORT = [HOME, Racks("racks, 3 switches, 2 servers, 1 % loss", servers=2, loss=True)]
ORDERS = ["0123", "3210", "1032", "2301"]  # whose inputs each rank uses
TRAINED = 2 * CHECKPOINT  # steps


def run(place, name, *words):
    """The row of one run; all ranks must have the same results."""
    with tempfile.TemporaryDirectory() as folder:
        return _run_in(Path(folder), place, name, *words)


def _run_in(folder, place, name, *words):
    place.run(folder, *words)
    found = [json.loads((folder / f"rank-{rank}.json").read_text()) for rank in range(RANKS)]
    row = {
        "backend": words[0],
        "what": words[1],
        "run": name,
        "values_per_fragment": found[0].get("values_per_fragment", ""),
        "result": _one(one["sha"] for one in found),
        "digest": _one(one.get("digest", "") for one in found),
    }
    print(f"{words[0]:5} {name:58} {row['result'][:16]:17} {row['digest']}", flush=True)
    return row


def _one(texts):
    different = sorted(set(texts))
    return different[0] if len(different) == 1 else f"ranks differ: {' '.join(different)}"


def measure(short):
    rounds = 2 if short else 12
    orders = ORDERS[:2] if short else ORDERS
    rows = [
        run(place, place.name, "atp", "sums", rounds, ORDERS[0], "whole")
        for place in (SHORT if short else PLACES)
    ]
    for backend in ("atp", "gloo"):
        for order in orders[1:] if backend == "atp" else orders:
            name = f"loopback, inputs of ranks {order}"
            rows.append(run(HOME, name, backend, "sums", rounds, order, "whole"))
        if short and backend == "gloo":
            break
        name = "loopback, tensors in pieces"
        rows.append(run(HOME, name, backend, "sums", rounds, ORDERS[0], "split"))
        rows += resumed(backend)
    return rows


def resumed(backend):
    """Two rows: an uninterrupted training run, and one resumed from its checkpoint."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        whole = _run_in(folder, HOME, "training, not interrupted", backend, "train", 0, TRAINED)
        after = _run_in(folder, HOME, "training, resumed", backend, "train", CHECKPOINT, TRAINED)
    return [whole, after]


def distinct(rows, backend, what, column="result"):
    return {row[column] for row in rows if (row["backend"], row["what"]) == (backend, what)}


def complaints(rows):
    """Violations of the promise about atp's results."""
    found = [
        f"{len(results)} different results of {what}"
        for what in ("sums", "train")
        if len(results := distinct(rows, "atp", what)) != 1
    ]
    found += [f"{r['run']}: {r[c]}" for r in rows for c in ("result", "digest") if "differ" in r[c]]
    # Split tensors take more operations, so their digest differs.
    whole = [row for row in rows if "pieces" not in row["run"]]
    for what in ("sums", "train"):
        if len(digests := distinct(whole, "atp", what, "digest")) != 1:
            found.append(f"{len(digests)} different digests of {what}")
    return found


def main():
    parser = report.parser(__doc__, "out/one-digest")
    parser.add_argument("--short", action="store_true", help="a few places, for automated tests")
    arguments = parser.parse_args()
    print(f"{'':5} {'run':58} {'hash of results':17} digest")
    rows = measure(arguments.short)
    with open(arguments.folder / "one-digest.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for backend in ("atp", "gloo"):
        runs = sum(row["backend"] == backend and row["what"] == "sums" for row in rows)
        results = len(distinct(rows, backend, "sums"))
        print(f"{backend}: {results} different results of the same sums in {runs} runs")
    for complaint in (found := complaints(rows)):
        print(f"promise violated: {complaint}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
