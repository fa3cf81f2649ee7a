"""The benchmark in its short form: right sums on every kind of network, a table, JSON, pictures."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from experiments.bench.conductor import Conductor, RankFailed
from experiments.bench.ways import bound_s
from experiments.bench.workloads import FULL, SHORT, Workload
from tests.pages import command

REPOSITORY = Path(__file__).resolve().parents[2]
MIB = 1 << 20


def run_bench(*words):
    return subprocess.run(
        [sys.executable, "-m", "experiments.bench", *map(str, words)],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=540,
    )


def test_every_kind_of_workload_is_measured_with_right_sums(tmp_path):
    done = run_bench("--short", "--without-mpi", tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "bench.json").read_text())
    measured = {(row["workload"], row["bytes"], row["way"]) for row in result["rows"]}
    assert measured == {
        (workload.name, size, way)
        for workload in SHORT
        for size in workload.sizes
        for way in workload.ways
        if "MPI" not in way
    }
    assert all(row["median_s"] > 0 for row in result["rows"])
    assert (tmp_path / "star.svg").stat().st_size > 1000
    carried = {
        row["way"]: row["bytes_of_a_rank"] for row in result["rows"] if row["workload"] == "star"
    }
    # 1 MiB in both directions of a link; int16 halves it. A busy machine makes a rank repeat some
    # packets, so the limits are wide: they only exclude the bytes of another way.
    assert 2 * MIB < carried["atp"] < 4 * MIB
    assert MIB < carried["atp int16"] < 2 * MIB


def test_the_command_of_docs_performance_md_names_workloads_of_equal_links():
    """It would measure for hours; the short form measures such a workload, too."""
    program, *words = command(
        "docs/results/performance.md", ".venv/bin/python -m experiments.bench --without-mpi"
    )
    assert (program, words[:2]) == (sys.executable, ["-m", "experiments.bench"])
    done = run_bench(*words[2:], "--list")
    assert done.returncode == 0, done.stderr
    listed = [line.partition(":")[0] for line in done.stdout.splitlines()]
    chosen = {one.name: one for one in FULL if one.family == "equal links"}
    assert listed == list(chosen)
    (short,) = [one for one in SHORT if one.family == "equal links"]
    assert {one.mbit for one in chosen.values()} == {short.mbit}
    assert not any(one.wide > 1 for one in [short, *chosen.values()])


WRONG_ARGUMENTS = {
    "an unknown workload": (
        ["--only", "galaxy-4"],
        "no workload galaxy-4; the workloads are gigabit-2",
    ),
    "an unknown option": (["--quick"], "unrecognized arguments: --quick"),
    "a folder that cannot be made": (["/proc/nowhere"], "cannot write results into /proc/nowhere"),
}


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments_are_named(name):
    words, said = WRONG_ARGUMENTS[name]
    done = run_bench(*words)
    assert done.returncode != 0
    assert said in done.stderr


def test_a_run_that_measures_nothing_leaves_no_folder(tmp_path):
    done = run_bench("--list", tmp_path / "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.partition(":")[0] for line in done.stdout.splitlines()] == [
        workload.name for workload in FULL
    ]
    assert run_bench("--only", "galaxy-4", tmp_path / "only").returncode != 0
    assert not list(tmp_path.iterdir())


def test_a_rank_that_has_failed_ends_the_run_with_what_it_said(tmp_path):
    def check():
        raise RankFailed("what the rank said")

    conductor = Conductor(tmp_path / "conductor", check)
    with socket.socket(socket.AF_UNIX) as rank:
        rank.connect(conductor.path.as_posix())
        rank.sendall(b"hello torch 0 0\n")
        conductor.wait_for("torch", 1, seconds=30)
    with pytest.raises(RankFailed, match="what the rank said"):
        conductor.turn("Gloo", "torch", 4, 1, seconds=30)


# The least time in units of one tensor over one rank's link.
BOUNDS = {
    "a ring": ("Gloo", Workload("", "", 4, (), mbit=1000), 1.5),
    "a switch with links for all": ("atp", Workload("", "", 4, (), mbit=1000, wide=5), 1),
    "a switch that is a host among equals": ("atp", Workload("", "", 4, (), mbit=1000), 5),
    "the better of both": ("atp auto", Workload("", "", 4, (), mbit=1000), 1.5),
    "the better of both, with links for all": (
        "atp auto",
        Workload("", "", 4, (), mbit=1000, wide=5),
        1,
    ),
    "half as many bytes": ("atp int16", Workload("", "", 4, (), mbit=1000, wide=5), 0.5),
    "two jobs": ("atp", Workload("", "", 4, (), mbit=1000, wide=10, jobs=2), 2),
    "one server without a switch": (
        "atp",
        Workload("", "", 4, (), mbit=1000, has_switch=False),
        4,
    ),
    "as many servers as ranks": (
        "atp",
        Workload("", "", 4, (), mbit=1000, has_switch=False, servers=4),
        1,
    ),
    "links as fast as the machine": ("atp", Workload("", "", 4, (), "host"), 0),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_the_bound_is_that_of_the_busiest_link(name):
    way, workload, tensors = BOUNDS[name]
    assert bound_s(way, workload, 1000**3 // 8) == pytest.approx(tensors)


def test_names_of_workloads_are_unique():
    for workloads in (FULL, SHORT):
        names = [workload.name for workload in workloads]
        assert len(names) == len(set(names))
