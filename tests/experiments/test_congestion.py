"""experiments/congestion in a tiny form: right sums, and nobody left with nothing."""

import importlib
import os
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
FOLDER = REPOSITORY / "experiments" / "congestion"
ATP = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release")) / "bin" / "atp"


@pytest.fixture(scope="module", autouse=True)
def on_path():
    sys.path.insert(0, str(FOLDER))
    yield
    sys.path.remove(str(FOLDER))


def test_without_congestion_control_an_incast_loses_most_of_its_goodput(tmp_path):
    incast = importlib.import_module("incast")
    (aimd, fixed), series = incast.measure(4)
    assert aimd["goodput_gbit"] > 2 * fixed["goodput_gbit"]
    assert aimd["repeats"] < 0.1 < fixed["repeats"]
    incast.plot(series, tmp_path / "plot.svg")
    assert "none" in incast.table([aimd, fixed]) and "paper:" in incast.compared([aimd, fixed])


def test_two_jobs_behind_one_uplink_are_both_served_and_right(tmp_path, needs_namespaces):
    shared = importlib.import_module("shared_link")
    outcome = shared.equal_jobs(tmp_path, ATP, 2, "aimd", shared.Link(), seconds=2)
    assert outcome.verified, outcome.text
    assert min(outcome.goodput) > 0.1 * max(outcome.goodput)


def test_a_job_and_a_tcp_flow_are_both_served_and_right(tmp_path, needs_namespaces):
    shared = importlib.import_module("shared_link")
    outcome = shared.job_beside_flows(tmp_path, ATP, 1, "up", "aimd", shared.Link(), seconds=2)
    assert outcome.verified, outcome.text
    assert outcome.tcp > 0 and outcome.goodput[0] > 0
