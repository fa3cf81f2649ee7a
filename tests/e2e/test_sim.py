"""`atp sim`: a seed is a world, replayed exactly and fast, with an exit code for each ending.

What a run must be to end with 1 or 2 is in tests/virtual_network/judgement_test.cc.
"""

import re
import signal
import subprocess
from pathlib import Path

SEED = "17"


def play(cluster, *options):
    command = [cluster.atp, "sim", *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_seed_that_holds_ends_with_0_and_says_what_it_reached(cluster):
    done = play(cluster, "--seed", SEED)
    assert done.returncode == 0, done.stderr
    assert re.search(r"\bfragments_completed \d+", done.stdout)


def test_a_trace_has_every_packet_and_is_the_same_each_time(cluster):
    first, second = (play(cluster, "--seed", SEED, "--trace") for _ in range(2))
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    for what in ["JOIN ", "JOIN_ACK", "GRADIENT", "PARAMETER", " sent ", " got "]:
        assert what in first.stdout


def catches(process, number):
    status = Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(r"SigCgt:\s*(\w+)", status)[1], 16) >> (number - 1) & 1


def test_a_crash_ends_with_3_and_the_line_that_plays_the_seed_again(cluster):
    soak = cluster.start("soak", [cluster.atp, "sim", "--count", "1000000000"])
    cluster.wait_until(lambda: catches(soak, signal.SIGSEGV), "the simulator to begin")
    soak.signal(signal.SIGSEGV)
    assert soak.wait(10) == 3
    assert re.search(r"crashed; replay: atp sim --seed \d+", soak.output())
