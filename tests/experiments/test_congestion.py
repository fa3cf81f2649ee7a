"""experiments/congestion in a tiny form: right sums, congestion control, and fair enough shares."""

import re
from collections import Counter

from experiments.congestion import incast, shared_link
from experiments.report import BUILD, publish

ATP = BUILD / "bin" / "atp"


def counters_of(outcome):
    """Those of rank 0 of each job, added up."""
    found = Counter()
    for name, value in re.findall(r"^#   (\w+) (\d+)$", outcome.text, re.MULTILINE):
        found[name] += int(value)
    return found


def cuts(outcome):
    """How often windows were cut; without congestion control they never are."""
    counters = counters_of(outcome)
    assert counters["gradients_sent"] > 0, outcome.text
    return counters["window_cuts_ecn"] + counters["window_cuts_loss"]


def test_without_congestion_control_an_incast_loses_most_of_its_goodput(tmp_path):
    (aimd, fixed), series = incast.measure(4)
    assert aimd["goodput_gbit"] > 2 * fixed["goodput_gbit"]
    assert aimd["repeats"] < 0.1 < fixed["repeats"]
    publish(tmp_path / "incast", [aimd, fixed], incast.plot(series))
    assert "none" in incast.table([aimd, fixed]) and "paper:" in incast.compared([aimd, fixed])


def test_two_jobs_behind_one_uplink_cut_their_windows_and_share_it(tmp_path, needs_namespaces):
    outcome = shared_link.equal_jobs(tmp_path, ATP, 2, "aimd", shared_link.Link(), seconds=2)
    assert outcome.verified, outcome.text
    assert min(outcome.goodput) > 0.5 * max(outcome.goodput)
    assert cuts(outcome) > 0


def test_a_job_beside_a_tcp_flow_cuts_its_window_and_shares_the_link(tmp_path, needs_namespaces):
    link = shared_link.Link()
    outcome = shared_link.job_beside_flows(tmp_path, ATP, 1, "up", "aimd", link, seconds=2)
    assert outcome.verified, outcome.text
    assert min(outcome.tcp, outcome.goodput[0]) > 0.25 * link.mbit / 2
    assert cuts(outcome) > 0


def test_a_fixed_window_is_never_cut(tmp_path, needs_namespaces):
    link = shared_link.Link()
    outcome = shared_link.job_beside_flows(tmp_path, ATP, 1, "up", "none", link, seconds=1)
    assert outcome.verified, outcome.text
    assert cuts(outcome) == 0
