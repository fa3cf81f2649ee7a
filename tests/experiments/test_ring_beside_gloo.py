"""experiments/ring/ring_beside_gloo.py in its smallest form: right sums, counted bytes, a table."""

import csv
import os
import subprocess
import sys
from pathlib import Path

from tests.pages import shown

REPOSITORY = Path(__file__).resolve().parents[2]
MODULE = "experiments.ring.ring_beside_gloo"


def test_a_tiny_run_measures_every_collective_on_both_paths(tmp_path):
    small = ["--local", "--ranks", "2", "--rounds", "1", "--sizes", "4096,65536"]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, tmp_path, *small],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    head = "\n".join(shown("docs/inside/torch-internals.md", "bound: ").splitlines()[:2])
    assert f"{head}\n" in done.stdout
    with open(tmp_path / "ring-beside-gloo.csv") as file:
        rows = list(csv.DictReader(file))
    assert [row["collective"] for row in rows[::2]] == [
        "all_reduce",
        "reduce_scatter",
        "all_gather",
    ]
    assert all(float(row["ring_ms"]) > 0 and float(row["gloo_ms"]) > 0 for row in rows)
    assert (tmp_path / "ring-beside-gloo.svg").read_text().startswith("<?xml")
