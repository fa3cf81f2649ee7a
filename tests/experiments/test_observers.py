"""A tiny run of experiments/observers.py."""

import csv
import subprocess
import sys

from experiments.report import REPOSITORY


def test_a_tiny_run_measures_a_job_with_and_without_observers(tmp_path):
    words = ("--rounds", "1", "--mbit", "300")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.observers", *words, tmp_path],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "observers.csv") as file:
        rows = {row[""]: row for row in csv.DictReader(file)}
    assert set(rows) == {"off", "on", "observers elsewhere"}
    assert all(float(row["switch"]) > 0 for row in rows.values())
