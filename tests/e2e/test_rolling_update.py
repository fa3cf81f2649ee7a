"""An update of the whole cluster under load: switches one after another, servers between jobs.

docs/operate/operations.md, "Updating". A job of four ranks over two racks checks every sum, while
others start and end; none of them may fail.
"""

import json
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from .conftest import wait_until
from .racks import ATP, LIMIT_S, Cluster

SCRIPT = Path(__file__).with_name("rolling_rank.py")
SWITCHES = {"a0": "127.0.1.1", "b0": "127.0.2.1", "s0": "127.0.3.1"}
HOSTS = ("a1", "b1")


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    # All hosts are this machine, whose ranks would otherwise not need the network.
    monkeypatch.setenv("ATP_HOST_MEMORY", "0")
    monkeypatch.setenv("ATP_ALGORITHM", "innetwork")
    cluster = Cluster(tmp_path)
    yield cluster
    for process in cluster.processes:
        process.terminate()
    for process in cluster.processes:
        process.wait(LIMIT_S)


def start_job(cluster, job, *command, incarnation=1):
    options = ("--job", str(job), "--incarnation", str(incarnation), "--")
    return [cluster.start(host, *options, *command) for host in HOSTS]


def finish(parts):
    for part in parts:
        assert part.wait(2 * LIMIT_S) == 0, part.log.read_text()


def status(cluster, address):
    done = subprocess.run(
        [ATP, "status", f"{address}:{cluster.port}", "--json"], capture_output=True, text=True
    )
    return json.loads(done.stdout) if done.returncode == 0 else None


def joined(cluster, address, job):
    """Ranks of the job that send through this switch."""
    said = status(cluster, address)
    return sum(len(j["joined"]) for j in said["jobs"] if j["job"] == job) if said else 0


class ShortJobs:
    """One short job after another, until told otherwise."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.enough = threading.Event()
        self.outputs = []
        self.failed = []
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        bench = (ATP, "bench", "allreduce", "-b", "256K", "-e", "256K", "-n", "3")
        while not self.enough.is_set() and not self.failed:
            parts = start_job(self.cluster, 2, *bench, incarnation=1 + len(self.outputs))
            codes = [part.wait(2 * LIMIT_S) for part in parts]
            self.outputs.append(parts[0].log.read_text())
            if codes != [0, 0] or "# Out of bounds values : 0 OK" not in self.outputs[-1]:
                self.failed = [part.log.read_text() for part in parts]

    def finish(self):
        self.enough.set()
        self.thread.join()
        assert not self.failed, "\n".join(self.failed)
        return len(self.outputs)


@pytest.mark.timeout(400)
def test_switches_are_replaced_one_after_another_and_no_job_fails(cluster):
    services = dict(zip(SWITCHES, cluster.serve(*SWITCHES), strict=True))
    cluster.serve("s1")
    stop = cluster.folder / "stop"
    steps_file = Path(f"{stop}.steps")
    job = start_job(cluster, 1, sys.executable, SCRIPT, stop)

    def steps():
        for part in job:
            assert part.poll() is None, part.log.read_text()
        return int(steps_file.read_text() or 0) if steps_file.exists() else 0

    wait_until(lambda: steps() > 0, "the job's first steps", LIMIT_S)
    short_jobs = ShortJobs(cluster)
    try:
        for host, address in SWITCHES.items():
            everywhere = wait_until(lambda a=address: joined(cluster, a, 1), "ranks", LIMIT_S)
            services[host].terminate()
            assert services[host].wait(LIMIT_S) == 0
            before = steps()
            wait_until(lambda b=before: steps() >= b + 40, "progress without it", LIMIT_S)
            (services[host],) = cluster.serve(host)
            wait_until(
                lambda a=address, n=everywhere: joined(cluster, a, 1) == n,
                f"all ranks' return to {host}",
                2 * LIMIT_S,
            )
            before = steps()
            wait_until(lambda b=before: steps() >= b + 40, "progress through it", LIMIT_S)
            # A rank that has left its tree more than once waits before it sends through it again.
            wait_until(
                lambda a=address: status(cluster, a)["sums_completed"] > 0, "its sums", LIMIT_S
            )
    finally:
        short = short_jobs.finish()
    assert short >= 3, "jobs also begin and end during the update"
    done = steps()
    stop.touch()
    finish(job)
    right = [int(n) for p in job for n in re.findall(r"(\d+) right sums", p.log.read_text())]
    assert len(right) == 4 and len(set(right)) == 1 and right[0] >= done, right
    print(f"{right[0]} sums of the long job, {short} short jobs, three switches replaced")


def test_a_server_is_replaced_between_jobs_and_a_new_job_waits_for_it(cluster):
    cluster.serve("s0", "a0", "b0")
    (server,) = cluster.serve("s1")
    address = f"127.0.3.2:{cluster.port}"
    bench = (ATP, "bench", "allreduce", "-b", "256K", "-e", "256K")
    first = start_job(cluster, 1, *bench, "-n", "400")
    wait_until(lambda: (s := status(cluster, "127.0.3.2")) and s["fragments"] > 0, "sums", LIMIT_S)
    drained = subprocess.run(
        [ATP, "drain", address, "--wait", "120"], capture_output=True, text=True, timeout=150
    )
    assert drained.returncode == 0, drained.stderr
    assert drained.stdout.splitlines() == [
        f"server {address}: draining, 1 job left",
        f"server {address}: draining, no jobs left",
        f"server {address}: ended",
    ]
    finish(first)
    assert "# Out of bounds values : 0 OK" in first[0].log.read_text()
    # Without ranks, `atp run` ends when its last node has been drained; here it has only this one.
    assert server.wait(LIMIT_S) == 0
    assert "has ended as asked" in server.log.read_text()

    second = start_job(cluster, 1, *bench, "-n", "3", incarnation=2)
    cluster.serve("s1")
    finish(second)
    assert "# Out of bounds values : 0 OK" in second[0].log.read_text()
