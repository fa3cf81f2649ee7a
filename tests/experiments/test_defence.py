"""experiments/defence in its smallest form: it ends, and what is counted holds."""

import csv
import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.defence.__main__ import Found
from experiments.defence.stranger import Asker
from lab.ports import free_port

REPOSITORY = Path(__file__).resolve().parents[2]


# Generous bounds, which even a loaded machine keeps; only needless waits exceed them.
LIMITS = {
    "256 KiB while jobs are created and left at 6 kB/s, over the time alone": 10,
    "`atp status` with 50 idle connections, the slowest, s": 3,
    "a stream of `atp view` beside 50 that are read: the slowest first view, s": 3,
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
    made_up = [value for what, value in found.items() if what.startswith("a made-up job")]
    assert len(made_up) == 4 and all(0 < value < 0.25 for value in made_up)
    assert len(found) == 25
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


# --- experiments/defence/__main__.py ---

CALM = Found("an attack", True, 50.0, 50.0, 50.0, 1.0, 0.02, 1.0, 0.1, 2, 300, 1 << 20, 0.1,
             0.0, 900, 0)  # fmt: skip


@pytest.mark.parametrize(
    "change, complaint",
    [
        ({}, None),
        ({"kept": 0.94}, "the job keeps 0.94"),
        ({"kept": 0.94, "stranger": os.cpu_count() / 20}, None),  # the machine was not the job's
        ({"kept": 0.76, "stranger": os.cpu_count() / 5}, None),
        ({"kept": 0.75, "stranger": os.cpu_count() / 5}, "the job keeps 0.94"),
        ({"amplification": 1.01}, "1.01 bytes out per byte in"),
        ({"amplification": None}, None),  # TCP proves an address
        ({"wrong": 1}, "1 wrong sums"),
        ({"log": 9_000_000}, "9,000,000 bytes of log"),
        ({"files": 1000}, "1000 descriptors"),
        ({"memory": 300 << 20}, "300 MB of memory"),
    ],
)
def test_what_falls_short_is_said(change, complaint):
    assert dataclasses.replace(CALM, **change).complaints() == ([complaint] if complaint else [])


def test_a_job_with_keys_survives_a_captured_join_and_harm_is_seen_where_there_is_some(tmp_path):
    words = ("--only", "to the other rack's switch", "--controls", "--keys", "yes")
    done = subprocess.run(
        [sys.executable, "-m", "experiments.defence", *words, "--rounds", "1", "--seconds", "1",
         tmp_path],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "attacks.csv") as file:
        join, frozen, amplifier, unbounded = csv.DictReader(file)
    # Before a JOIN counted only at its own node, the job kept 0.03.
    assert float(join["kept"]) > 0.25 and float(join["amplification"]) < 0.5, join
    assert int(join["packets"]) > 5 and int(join["files"]) < 10 and int(join["log"]) < 10_000, join
    assert sum(int(one["wrong"]) for one in (join, frozen, amplifier, unbounded)) == 0
    assert float(frozen["kept"]) < 0.25, frozen
    assert float(amplifier["amplification"]) > 2, amplifier
    assert int(unbounded["files"]) > 100 and int(unbounded["log"]) > 10_000, unbounded
