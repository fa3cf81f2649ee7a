"""experiments/host/memory_beside_gloo.py and types_beside_gloo.py in their smallest forms: right
sums, a table, a figure."""

import csv
import subprocess
import sys

from experiments import report
from tests.pages import shown


def run(module, *words):
    done = subprocess.run(
        [sys.executable, "-m", f"experiments.host.{module}", *words],
        cwd=report.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_it_measures_memory_ring_and_gloo_and_writes_a_table_and_a_figure(tmp_path):
    words = ["--ranks", "2", "--rounds", "1", "--sizes", "4096,65536"]
    printed = run("memory_beside_gloo", tmp_path, *words)
    head = shown("docs/results/performance.md", "ranks      bytes").splitlines()[0]
    assert f"{head}\n" in printed
    with open(tmp_path / "memory-beside-gloo.csv") as file:
        rows = list(csv.DictReader(file))
    assert [(row["ranks"], row["bytes"]) for row in rows] == [("2", "4096"), ("2", "65536")]
    assert all(float(row[f"{path}_ms"]) > 0 for row in rows for path in ("memory", "ring", "gloo"))
    assert (tmp_path / "memory-beside-gloo.svg").read_text().startswith("<?xml")


def test_it_measures_every_type(tmp_path):
    sizes = "4096,65536,1048576,16777216"
    words = ["--ranks", "2", "--rounds", "1", "--sizes", sizes]
    printed = run("types_beside_gloo", tmp_path, *words)
    head = shown("docs/results/performance.md", "ranks type").splitlines()[0]
    assert f"{head}\n" in printed
    with open(tmp_path / "types-beside-gloo.csv") as file:
        rows = list(csv.DictReader(file))
    assert len({row["type"] for row in rows}) == 10 and len(rows) == 40
    assert all(float(row["memory_ms"]) > 0 for row in rows)
    assert [row["type"] for row in rows if row["gloo_ms"] == ""] == ["int16"] * 4
