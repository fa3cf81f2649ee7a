"""experiments/host/memory_beside_gloo.py in its smallest form: right sums, a table, a figure."""

import csv
import subprocess
import sys

from experiments import report
from tests.pages import shown

MODULE = "experiments.host.memory_beside_gloo"


def test_it_measures_memory_ring_and_gloo_and_writes_a_table_and_a_figure(tmp_path):
    words = ["--ranks", "2", "--rounds", "1", "--sizes", "4096,65536"]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, tmp_path, *words],
        cwd=report.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head = shown("docs/results/performance.md", "ranks      bytes").splitlines()[0]
    assert f"{head}\n" in done.stdout
    with open(tmp_path / "memory-beside-gloo.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["ranks"], row["bytes"]) for row in rows] == [("2", "4096"), ("2", "65536")]
    assert all(float(row[f"{path}_ms"]) > 0 for row in rows for path in ("memory", "ring", "gloo"))
    assert (tmp_path / "memory-beside-gloo.svg").read_text().startswith("<?xml")
