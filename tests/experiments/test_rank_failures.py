"""experiments/rank_failures in a short form: every failure, in calls of every path."""

import subprocess
import sys
from pathlib import Path

import pytest

from experiments.rank_failures.verdict import NO_ERROR, blamed, fault

REPOSITORY = Path(__file__).resolve().parents[2]
# In the network, over the ring or between peers; to one rank, from one, among all, and in pairs.
SOME = (
    "all_reduce",
    "all_reduce, int64",
    "reduce",
    "reduce_scatter",
    "all_gather",
    "broadcast",
    "all_to_all",
    "barrier",
    "send",
    "recv",
    "recv from any rank",
)


def test_all_other_ranks_blame_the_one_that_fails_and_in_time(tmp_path):
    words = ("--trials", "1", "--timeout", "3", "--only", *SOME, "--", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "experiments.rank_failures", *words],
        capture_output=True,
        text=True,
        timeout=300,
        cwd=REPOSITORY,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = 2 * 4 * len(SOME) * 2  # ways, failures, calls, other ranks
    assert f"\n{cases} errors, 0 faults; wrote {tmp_path / 'rank_failures.csv'}\n" in done.stdout


FROZEN = "not ended within its timeout of 3 s: rank {} (127.0.0.1:4000) does not answer"


@pytest.mark.parametrize(
    ("why", "text", "seconds", "expected"),
    [
        ("nothing", FROZEN.format(1), 3.0, None),
        ("the other rank is blamed", FROZEN.format(2), 3.0, "blames [2]"),
        ("both are blamed", "ranks 1 (a) and 2 (b) do not answer: rank 1 does not answer", 3.0,
         "blames [1, 2]"),
        ("nobody is blamed", "rank 0 waits for somebody that does not answer", 3.0, "blames []"),
        ("it is late", FROZEN.format(1), 4.5, "came after 4.5 s, expected 4.0 s"),
        ("there is none", NO_ERROR, 0.0, "not a known error"),
        ("its text is new", "rank 1 is asleep", 3.0, "not a known error"),
    ],
)  # fmt: skip
def test_an_error_is_at_fault_if(why, text, seconds, expected):
    assert fault("ring", "is frozen", "reduce", text, seconds, 3) == expected, why


def test_a_rank_that_waits_or_is_the_root_is_not_blamed():
    waits = "rank 1 (a:1) has sent nothing with tag 0, and has itself waited 2.2 s for rank 0 (a:2)"
    assert blamed(f"recv: not ended within its timeout of 3 s: {waits}") == {1}
    assert blamed("reduce #0 to rank 0: rank 1 has not contributed; rank 2 waits for it") == {1}
    assert blamed("monitored_barrier #0: rank 0: rank 1 failed to pass monitored_barrier") == {1}
