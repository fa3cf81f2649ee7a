"""experiments/collectives in its smallest form: right results, a table, a plot."""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.collectives.rank import SHARES

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("where", ["one host", "links"])
def test_a_tiny_run_measures_every_collective_over_atp_and_gloo(tmp_path, where):
    small = ["--where", where, "--ranks", "3", "--rounds", "1", "--sizes", "4096,300000"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.collectives", tmp_path, *small],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "collectives.csv") as file:
        rows = list(csv.DictReader(file))
    assert list(dict.fromkeys(row["collective"] for row in rows)) == list(SHARES)
    assert all(float(row["atp_ms"]) > 0 and float(row["gloo_ms"]) > 0 for row in rows)
    assert (tmp_path / "collectives.svg").read_text().startswith("<?xml")
