"""experiments/congestion in a tiny form: right sums, and nobody left with nothing."""

from experiments.congestion import incast, shared_link
from experiments.report import BUILD, publish

ATP = BUILD / "bin" / "atp"


def test_without_congestion_control_an_incast_loses_most_of_its_goodput(tmp_path):
    (aimd, fixed), series = incast.measure(4)
    assert aimd["goodput_gbit"] > 2 * fixed["goodput_gbit"]
    assert aimd["repeats"] < 0.1 < fixed["repeats"]
    publish(tmp_path / "incast", [aimd, fixed], incast.plot(series))
    assert "none" in incast.table([aimd, fixed]) and "paper:" in incast.compared([aimd, fixed])


def test_two_jobs_behind_one_uplink_are_both_served_and_right(tmp_path, needs_namespaces):
    outcome = shared_link.equal_jobs(tmp_path, ATP, 2, "aimd", shared_link.Link(), seconds=2)
    assert outcome.verified, outcome.text
    assert min(outcome.goodput) > 0.1 * max(outcome.goodput)


def test_a_job_and_a_tcp_flow_are_both_served_and_right(tmp_path, needs_namespaces):
    outcome = shared_link.job_beside_flows(
        tmp_path, ATP, 1, "up", "aimd", shared_link.Link(), seconds=2
    )
    assert outcome.verified, outcome.text
    assert outcome.tcp > 0 and outcome.goodput[0] > 0
