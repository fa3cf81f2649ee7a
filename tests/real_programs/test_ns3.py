"""The simulator and ns-3 agree, and the comparison notices where they would not."""

import pytest

from experiments.ns3 import __main__ as ns3
from experiments.ns3 import all_reduces, comparison, packets


@pytest.fixture(autouse=True)
def is_built():
    for name in ("all_reduce", "arrivals"):
        program = comparison.PEERS / name
        assert program.exists(), f"{program} does not exist: run `make test-real-programs`"


@pytest.mark.parametrize("part", ns3.PARTS)
def test_a_part_is_within_its_bounds(part, capsys):
    ns3.main(["--only", part])
    assert "all within their bounds" in capsys.readouterr().out


# What the simulator would do if one of its quantities were a little wrong.
WRONG = {
    "a delay of 10 ns more": {"delay": 1.01},
    "values of 4 bytes more in a packet": {"values": 63},
    "1 ns more in a host": {"host_ns": 19},
    "one operation at a time": {"in_flight": 1},
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_simulator_that_is_a_little_wrong_is_noticed(wrong, monkeypatch, capsys):
    play = all_reduces.contest.play
    monkeypatch.setattr(all_reduces.contest, "play", lambda o: play(o | WRONG[wrong]))
    scenario = "8 workers, a switch sums"
    monkeypatch.setattr(all_reduces, "UNCONGESTED", {scenario: all_reduces.UNCONGESTED[scenario]})
    with pytest.raises(SystemExit, match="2 figures are beyond their bounds"):
        ns3.main(["--only", "all-reduces without congestion"])
    assert "BEYOND" in capsys.readouterr().out


def test_a_queue_that_is_a_tenth_longer_is_noticed(monkeypatch):
    traffic = packets.DROPPED["bursts of 8, load 0.9, queue of 15 kB"]
    drawn = packets.draw(traffic, seed=1)
    run = packets.run
    monkeypatch.setattr(
        packets, "run", lambda p, options, text: run(p, options | {"queue_bytes": 16_500}, text)
    )
    ours, theirs = (packets.Outcome(drawn, side) for side in packets.send_both(traffic, drawn))
    (lost, *_) = comparison.compare_runs(
        "a longer queue", [(ours.figures(), theirs.figures())], packets.BOUNDS
    )
    assert lost.what == "lost packets" and not lost.holds
