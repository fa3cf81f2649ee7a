"""experiments/training in its smallest form: both backends train, and the table has both."""

import csv
import subprocess
import sys

from experiments import report
from tests.pages import shown


def test_both_backends_train_on_the_same_links(tmp_path):
    words = ["--ranks", "2", "--rounds", "1", "--images", "1024", "--mbit", "400"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.training", tmp_path, *words],
        cwd=report.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head = shown("docs/results/performance.md", "backend  ms per step").splitlines()[0]
    assert f"{head}\n" in done.stdout
    with open(tmp_path / "training.csv") as file:
        ours, theirs = csv.DictReader(file)
    assert [ours["backend"], theirs["backend"]] == ["atp", "gloo"]
    assert float(ours["last_loss"]) < 2.5 and float(ours["step_ms"]) > 0
    assert float(theirs["over_gloo"]) == 1
    assert (tmp_path / "training.svg").read_text().startswith("<?xml")
