"""A rank that holds up its job has a name: on the other ranks, in the logs and in the status."""

import json
import os
import re
import signal
import time

import pytest

from lab.ranks import environment

# Before the lease ends, 5 s after the last word, when the rank is lost and no longer waited for.
SECONDS = 4.5


class Job:
    """Three ranks, a switch and a server, on a host each, that sum without end."""

    def __init__(self, network):
        self.network = network
        self.server = self._node("server", "server")
        upstream = f"{network['server'].address}/32"
        self.switch = self._node("switch", "switch", "--upstream", upstream)
        hosts = [network[f"w{rank}"] for rank in range(3)]
        route = f"{network['switch'].address}:5500,{network['server'].address}:5500"
        variables = {"ATP_JOB": 7, "ATP_INCARNATION": 1, "ATP_ROUTE": route}
        command = (network.atp, "bench", "allreduce", "-b", "64K", "-e", "64K", "-n", 1_000_000)
        self.ranks = [
            host.start(*command, env={**environment(rank, hosts), **variables})
            for rank, host in enumerate(hosts)
        ]
        self.wait(lambda: self.status("server")["fragments"] > 1000, "the job runs", 30)

    def _node(self, host, role, *options):
        address = f"{self.network[host].address}:5500"
        node = self.network[host].start(
            self.network.atp, role, "--listen", address, "--values", 350, *options
        )
        self.network.wait_for_line(node, "listening on")
        return node

    def status(self, host):
        address = f"{self.network[host].address}:5500"
        return json.loads(self.network[host].exec(self.network.atp, "status", address, "--json"))

    def stuck(self, host):
        found = self.status(host)["jobs"][0]["stuck"]
        return found and [(rank["rank"], rank["host"]) for rank in found["ranks"]]

    def wait(self, condition, what, seconds=SECONDS):
        begin = time.monotonic()
        while not condition():
            assert time.monotonic() < begin + seconds, f"not within {seconds} s: {what}"
            time.sleep(0.02)
        print(f"{what} after {time.monotonic() - begin:.2f} s")

    def said(self, process):
        return process.log.read_text()

    def everybody(self):
        return {"server": self.server, "switch": self.switch} | {
            f"rank {rank}": process for rank, process in enumerate(self.ranks)
        }

    def signal(self, rank, number):
        for pid in self.network[f"w{rank}"].pids():
            os.kill(pid, number)


def freeze(job):
    job.signal(1, signal.SIGSTOP)
    return lambda: job.signal(1, signal.SIGCONT)


def cut_the_link(job):
    job.network.set_link("w1", "down")
    return lambda: job.network.set_link("w1", "up")


@pytest.fixture
def job(make_network):
    return Job(make_network("server", "switch", "w0", "w1", "w2"))


@pytest.mark.parametrize("disturb", [freeze, cut_the_link])
def test_a_rank_that_holds_up_the_job_is_named_everywhere_until_it_goes_on(job, disturb):
    name = f"rank 1 ({job.network['w1'].address})"
    others = {who: p for who, p in job.everybody().items() if who != "rank 1"}

    mend = disturb(job)
    for who, process in others.items():
        job.wait(lambda p=process: f"for {name}" in job.said(p), f"{who} names it")
    for host in ("server", "switch"):
        assert job.stuck(host) == [(1, job.network["w1"].address)]
        text = job.network[host].exec(
            job.network.atp, "status", f"{job.network[host].address}:5500"
        )
        operation = r"all_reduce #[0-9]+ \([0-9,]+ values\)"
        assert re.search(
            rf"job 7 waits for {re.escape(name)} in {operation}: [0-9.]+ s so far\n", text
        )

    mend()
    for who in ("rank 0", "rank 2"):
        job.wait(
            lambda p=others[who]: "rank 1 has resumed" in job.said(p), f"{who} says it is over"
        )
    for who in ("server", "switch"):
        job.wait(
            lambda p=others[who]: f"no longer waits for {name} in all_reduce #" in job.said(p),
            f"{who} too",
        )
        assert job.stuck(who) is None
    for who, process in job.everybody().items():
        said = job.said(process)
        assert "rank 0 (" not in said and "rank 2 (" not in said, f"{who}: {said}"


def test_a_rank_that_the_others_wait_for_most_of_the_time_is_named_once(job):
    name = f"rank 1 ({job.network['w1'].address})"
    end = time.monotonic() + 30
    told = f"waiting for {name}, less than a second each time"
    while not all(told in job.said(job.ranks[rank]) for rank in (0, 2)):
        assert time.monotonic() < end, "not reported"
        job.signal(1, signal.SIGSTOP)
        time.sleep(0.6)
        job.signal(1, signal.SIGCONT)
        time.sleep(0.1)
    for rank in (0, 2):
        assert job.said(job.ranks[rank]).count("less than a second each time") == 1
    assert "less than a second each time" not in job.said(job.ranks[1])


def test_a_job_that_nobody_disturbs_names_nobody(job):
    time.sleep(3)
    for who, process in job.everybody().items():
        said = job.said(process)
        assert "wait" not in said, f"{who}: {said}"
