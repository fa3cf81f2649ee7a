"""experiments/defence/defence.py in its smallest form: it ends, and what is counted holds."""

import csv
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_tiny_run_measures_every_defence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "experiments.defence.defence", tmp_path, "--short"],
        capture_output=True,
        text=True,
        timeout=120,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "defence.csv") as file:
        found = {row["what"]: float(row["value"]) for row in csv.DictReader(file)}
    assert found["60 gradients after JOINs of a looped route: forwards"] == 0
    assert 0 < found["… bytes answered for 1,000 that it sent"] <= 1000
    assert len(found) == 16
