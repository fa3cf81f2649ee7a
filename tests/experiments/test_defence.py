"""experiments/defence/defence.py in its smallest form: it ends, and what is counted holds."""

import csv
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.defence.stranger import Asker
from lab.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]


# Generous bounds, which even a loaded machine keeps; only needless waits exceed them.
LIMITS = {
    "256 KiB while jobs are created and left at 6 kB/s, over the time alone": 10,
    "`atp status` with 50 idle connections, the slowest, s": 3,
    "one of three servers killed: the first rank ends after, s": 30,
    "… and the last rank after the first, the slowest trial, s": 4,
    "… the slowest trial, s": 4,
}


def test_a_tiny_run_measures_every_defence(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "experiments.defence.defence", tmp_path, "--short"],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "defence.csv") as file:
        found = {row["what"]: float(row["value"]) for row in csv.DictReader(file)}
    assert found["60 gradients after JOINs of a looped route: forwards"] == 0
    for source in ("one address", "20 addresses"):
        assert 0 < found[f"… bytes answered per 1,000 from {source}"] <= 1000
    assert len(found) == 20
    for what, limit in LIMITS.items():
        assert 0 <= found[what] < limit, what


def test_a_client_of_a_server_that_has_ended_gives_up():
    with Asker("127.0.0.3", ("127.0.0.1", free_port())) as asker:
        asker.step()
        with pytest.raises(SystemExit, match="questions are not answered after 0.1 s"):
            asker.finish(0.1)


def test_a_tiny_run_forges_packets_of_a_job_with_a_key(tmp_path):
    words = ("--rounds", "1", "--forged", "2000", "--mbit", "300")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.defence.keys", *words, tmp_path],
        capture_output=True,
        text=True,
        timeout=400,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "keys.csv") as file:
        rows = {row[""]: row for row in csv.DictReader(file)}
    assert set(rows) == {"no keys", "keys", "keys, forged packets"}
    assert all(float(row["switch"]) > 0 for row in rows.values())
    assert "forged: 2,000 sent" in done.stdout and "none accepted" in done.stdout
