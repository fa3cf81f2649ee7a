"""experiments/culprits in its smallest form: each kind of culprit is named, and nobody else."""

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def row_of(tmp_path, name):
    words = ("--trials", "1", "--only", name)
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
    assert row[""] == name and row["wrong names"] == "0"
    return row


def test_a_frozen_rank_is_named_in_all_places(tmp_path):
    row = row_of(tmp_path, "a rank is frozen")
    for place in ("ranks", "status", "metrics", "page"):
        assert "never" not in row[place], row


@pytest.mark.parametrize(
    "name",
    [
        "the switch above is killed",
        "a switch to the one above",
        "a rack's uplink is cut",
        "the server drains",
        "the tenant's key is removed",
    ],
)
def test_the_right_one_is_named_by_the_ranks(tmp_path, name):
    assert "never" not in row_of(tmp_path, name)["ranks"]


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


def test_runs_side_by_side_merge_into_one_table(tmp_path):
    for run, seconds in (("one", [1.0, 1.2]), ("other", [3.0, None])):
        lines = [{"name": "a rank is frozen", "load": 1.5, "ranks": each, "status": 0.1,
                  "metrics": 0.1, "page": 0.1, "wrong": []} for each in seconds]  # fmt: skip
        (tmp_path / run).mkdir()
        (tmp_path / run / "trials.jsonl").write_text("".join(f"{json.dumps(x)}\n" for x in lines))
    runs = (tmp_path / "one", tmp_path / "other")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.culprits", tmp_path, "--merge", *runs],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stderr
    row = "| a rank is frozen | 4 | rank 1 | 0, 2, 3 | 1.2 s (at most 3.0, 1 never) | 0.1 s"
    assert row in done.stdout, done.stdout
