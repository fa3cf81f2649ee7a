"""experiments/congestion/loss.py in its smallest form: right sums under loss, a table."""

import csv
import os
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_tiny_run_times_both_paths_under_loss(tmp_path):
    small = ["--ranks", "2", "--iterations", "20", "--bytes", "16384", "--loss", "0,2"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.congestion.loss", tmp_path, *small],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "loss.csv") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["loss_per_cent"]) for row in rows] == [0, 2]
    assert all(float(row["innetwork_ms"]) > 0 and float(row["gloo_ms"]) > 0 for row in rows)
    assert (tmp_path / "loss.svg").read_text().startswith("<?xml")
