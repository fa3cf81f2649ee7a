"""A straggler costs time, not aggregation: its peers' packets wait for it in the switch."""

import json
import signal
import sys
from pathlib import Path

RANKS, STEPS, VALUES = 4, 30, 200_000
SCRIPT = Path(__file__).with_name("late_rank.py")


def test_a_rank_100_ms_behind_in_each_step_does_not_keep_sums_from_the_switch(cluster):
    stats = cluster.folder / "server.jsonl"
    server = cluster.start_server("--stats", stats)
    cluster.start_switch()
    command = [sys.executable, SCRIPT, cluster.folder / "store", STEPS, VALUES]
    for rank in cluster.start_ranks(RANKS, command):
        assert rank.wait(120) == 0, rank.output()
    server.signal(signal.SIGINT)
    assert server.wait(20) == 0, server.output()

    counters = json.loads(stats.read_text().splitlines()[-1])["counters"]
    completed = counters["fragments_completed"]
    blocks = -(-VALUES // 256)
    assert completed == STEPS * (-(-VALUES // 350) + -(-blocks // 700))
    share = counters["fragments_completed_by_one_packet"] / completed
    print(f"{share:.2%} of {completed} fragments were summed in the switch")
    assert share >= 0.90
