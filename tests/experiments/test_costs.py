"""experiments/numbers/costs.py in a tiny form: every case is timed and compared."""

import csv
import subprocess
from pathlib import Path

from experiments.numbers import costs
from tests.pages import command

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_case_is_timed(tmp_path):
    typed = command("docs/results/accuracy.md", ".venv/bin/python -m experiments.numbers.costs")
    words = [*typed, tmp_path, "--ranks=2", "--rounds=1", "--seconds=0.01"]
    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "costs.csv") as file:
        rows = {row["case"]: float(row["us"]) for row in csv.DictReader(file)}
    assert {"scalar", "64 KiB", "1 x small, exact", "8 x small, blocks"} <= set(rows)
    assert all(us > 0 for us in rows.values())
    assert "100 x 1 KiB, coalesced / 100 KiB: " in done.stdout
    assert (tmp_path / "costs.svg").stat().st_size > 1000


def test_costs_and_ratios_to_another_checkout_are_medians_of_the_rounds():
    ours = [{"scalar": us * 1e-6} for us in (100, 300, 120)]
    theirs = [{"scalar": us * 1e-6} for us in (50, 60, 70)]
    (row,) = costs.summarize(ours, theirs)
    assert round(row["us"]) == 120
    assert round(row["spread"], 2) == 1.67
    assert round(row["over_beside"], 2) == 2.0
