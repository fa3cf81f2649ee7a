"""experiments/congestion in a tiny form: right sums, congestion control, and fair enough shares."""

from experiments.congestion import incast, largest_windows, shared_link
from experiments.report import BUILD, publish

ATP = BUILD / "bin" / "atp"


def cuts(outcome):
    assert shared_link.counters_of(outcome)["gradients_sent"] > 0, outcome.text
    return shared_link.cuts(outcome)


def test_an_incast_needs_congestion_control_by_the_papers_rules_and_room_by_ours(tmp_path):
    rows, series = incast.measure(4)
    ours, fixed, papers, papers_fixed = (row["goodput_gbit"] for row in rows)
    assert papers > 2 * papers_fixed
    assert ours > 1.8 * papers and ours > 2 * fixed
    assert rows[0]["repeats"] < 0.1 < rows[3]["repeats"]
    publish(tmp_path / "incast", rows, incast.plot(series))
    assert "none" in incast.table(rows) and "paper:" in incast.compared(rows)


def test_the_largest_window_hardly_matters_by_our_rules(tmp_path):
    rows = largest_windows.measure([8], [100], [64, 1024], 4)
    ((*_, by_rules),) = largest_windows.compared(rows)
    assert min(by_rules["ours"][0]) > 0.93 > 0.6 > min(by_rules["paper"][0])
    publish(tmp_path / "windows", rows, largest_windows.plot(rows))
    assert "100" in largest_windows.table(rows)


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
