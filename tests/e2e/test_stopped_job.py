"""Ctrl-Z and `fg`: a job that was stopped as a whole for longer than a lease continues."""

import signal
import sys
import time
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("stopped_rank.py")
LONGER_THAN_A_LEASE_S = 7
RANKS, STEPS = 2, 40


def state_of(process):
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def descendants(process):
    found = []
    for task in Path(f"/proc/{process}/task").iterdir():
        for child in map(int, (task / "children").read_text().split()):
            found += [child, *descendants(child)]
    return found


@pytest.mark.parametrize("way", ["switch", "ring", "memory"])
def test_a_job_that_is_stopped_for_longer_than_a_lease_goes_on(cluster, way):
    nodes = ["--switch"] if way == "switch" else []
    command = [cluster.atp, "run", "-n", RANKS, *nodes, "--", sys.executable, SCRIPT, STEPS]
    job = cluster.start("job", command, {"WAY": way})
    cluster.wait_until(lambda: job.output().count("has begun") == RANKS, "the first step", 60)

    job.signal(signal.SIGTSTP)
    cluster.wait_until(lambda: state_of(job.popen.pid) == "T", "atp run to stop")
    supervisor, *below = descendants(job.popen.pid)
    assert len(below) >= RANKS + (2 if way == "switch" else 0)
    cluster.wait_until(lambda: all(state_of(each) == "T" for each in below), "the job to stop")
    time.sleep(LONGER_THAN_A_LEASE_S)
    assert state_of(supervisor) != "T", "it must see the front process's death"
    job.signal(signal.SIGCONT)

    assert job.wait(60) == 0, job.output()
    assert job.output().count("has ended") == RANKS, job.output()


def test_a_stopped_job_ends_with_atp_run(cluster):
    command = [cluster.atp, "run", "-n", RANKS, "--", sys.executable, SCRIPT, 10**6]
    job = cluster.start("job", command, {"WAY": "memory"})
    cluster.wait_until(lambda: job.output().count("has begun") == RANKS, "the first step", 60)
    job.signal(signal.SIGTSTP)
    cluster.wait_until(lambda: state_of(job.popen.pid) == "T", "atp run to stop")
    below = descendants(job.popen.pid)
    job.kill()
    cluster.wait_until(
        lambda: not any(Path(f"/proc/{each}").exists() for each in below), "all to end"
    )
