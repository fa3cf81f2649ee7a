"""experiments/culprits in its smallest form: a frozen rank is named everywhere, and nobody else."""

import csv
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_frozen_rank_is_named_in_all_places(tmp_path):
    words = ("--trials", "1", "--only", "a rank is frozen")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.culprits", *words, tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "culprits.csv") as file:
        (row,) = csv.DictReader(file)
    assert row[""] == "a rank is frozen" and row["wrong names"] == "0"
    for place in ("ranks", "status", "metrics", "page"):
        assert "never" not in row[place], row


def test_arguments_that_choose_nothing_are_an_error(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "experiments.culprits", "--only", "an earthquake", tmp_path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    assert done.returncode == 1
    assert "a rank is frozen" in done.stderr
