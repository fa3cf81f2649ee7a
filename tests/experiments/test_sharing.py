"""experiments/sharing in a tiny form: the order of the schemes, fairness, and right sums."""

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "experiments" / "sharing"


@pytest.fixture(scope="module", autouse=True)
def on_path():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def goodput(rows, **wanted):
    (row,) = [r for r in rows if all(r[name] == value for name, value in wanted.items())]
    return row["goodput_gbit"]


def test_rehash_comes_near_a_static_partition_and_linear_placement_does_not(tmp_path):
    fig14 = importlib.import_module("fig14")
    rows = fig14.measure([4], operations=30)
    static = goodput(rows, scheme="static")
    assert goodput(rows, scheme="rehash") > 0.9 * static
    assert goodput(rows, scheme="hash") < 0.7 * static
    assert goodput(rows, scheme="linear") < 0.5 * static
    fig14.plot(rows, tmp_path / "plot.svg")
    assert "linear" in fig14.table(rows) and "paper:" in fig14.verdict(rows)


def test_two_equal_jobs_are_served_alike(tmp_path):
    few = importlib.import_module("few_aggregators")
    rows = few.measure([256, 32], operations=15)
    assert all(row["jain"] >= 0.95 for row in rows), rows
    assert goodput(rows, scheme="dynamic", aggregators=256) > 40
    assert goodput(rows, scheme="dynamic", aggregators=32) < 20
    few.plot(rows, tmp_path / "plot.svg")
    assert "64" not in few.table(rows) and "paper:" in few.verdict(rows)


def test_dynamic_sharing_needs_half_of_the_aggregators(tmp_path):
    phases = importlib.import_module("phases")
    rows = phases.measure([384, 192], [2], operations=24)
    ((workers, aggregators, static, dynamic),) = phases.side_by_side(rows)
    assert (workers, aggregators) == (2, 384)
    assert dynamic > 0.95 * static
    phases.plot(rows, tmp_path / "plot.svg")
    assert "192" in phases.table(rows) and "paper:" in phases.verdict(rows)


def test_a_contest_that_cannot_be_played_is_an_error():
    contest = importlib.import_module("contest")
    with pytest.raises(RuntimeError, match="--jobs"):
        contest.play({"jobs": 0})
