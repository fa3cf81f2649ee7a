"""experiments/ns3 without ns-3: bounds, traffic and exits. tests/real_programs has the rest."""

import pytest

from experiments.ns3 import __main__ as ns3
from experiments.ns3 import comparison, packets
from experiments.ns3.comparison import Comparison
from experiments.report import BUILD


def test_the_run_that_differs_most_decides():
    assert Comparison("", "", (100, 103), (100, 100), 0.02).difference == pytest.approx(0.03)
    for ours, theirs, bound, holds in (
        ((5,), (5,), 0, True),
        ((5.001,), (5,), 0, False),
        ((98.1, 100), (100, 100), 0.02, True),
        ((97.9, 100), (100, 100), 0.02, False),
        ((1,), (0,), 0.02, False),
        ((0,), (0,), 0, True),
    ):
        assert Comparison("", "", ours, theirs, bound).holds == holds, (ours, theirs)


def test_a_figure_beyond_its_bound_is_reported_and_sets_the_exit_status(monkeypatch, capsys):
    monkeypatch.setattr(
        ns3,
        "PARTS",
        {"good": lambda: [Comparison("a", "sums", (7,), (7,))],
         "bad": lambda: [Comparison("b", "losses", (103,), (100,), 0.02)]},
    )  # fmt: skip
    ns3.main(["--only", "good"])
    assert "all within their bounds" in capsys.readouterr().out
    with pytest.raises(SystemExit, match="1 figures are beyond their bounds"):
        ns3.main([])
    assert "+3.000%  BEYOND 2%" in capsys.readouterr().out


def test_without_ns3_it_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr(comparison, "PEERS", tmp_path)
    with pytest.raises(SystemExit, match="does not exist: run `make ns3`"):
        ns3.main(["--only", "packets without"])


def test_packets_of_two_hosts_never_meet_at_one_picosecond():
    traffic = packets.Traffic(load=0.9, burst=8, sizes=packets.MIXED)
    drawn = packets.draw(traffic, seed=1)
    assert drawn == packets.draw(traffic, seed=1) != packets.draw(traffic, seed=2)
    assert all(when % packets.BYTE_PS == host for when, host, _ in drawn)
    assert {size for _, _, size in drawn} == set(packets.MIXED)
    assert len(drawn) == packets.PACKETS


def test_the_simulators_network_delays_marks_and_loses_what_the_links_say():
    options = {"hosts": 2, "gbit": 50, "queue_bytes": 700, "ecn_bytes": 300}
    text = "".join(f"{number * 362 * 80} 0 296\n" for number in range(6))
    said = packets.run(BUILD / "bin" / "network_arrivals", options, text)
    first = 2_000_000 + 362 * 80 + 362 * 160
    # The receiver's link takes twice as long as the sender's, so each waits for 181 bytes more.
    assert [(fate.arrival, fate.marked) for fate in packets.fates(said)] == [
        (first, False),
        (first + 362 * 160, False),
        (first + 2 * 362 * 160, True),
        (first + 3 * 362 * 160, True),
        (None, False),
        (first + 4 * 362 * 160, True),
    ]
