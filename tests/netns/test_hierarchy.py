"""Ranks of real hosts that sum in their host's memory before one of them sends."""

import contextlib
import json
import os
import re
import signal
import sys
import time
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.ranks import run_ranks

from .conftest import ATP, serve

RANK = Path(__file__).with_name("hierarchy_rank.py")
TRAINING = Path(__file__).with_name("hierarchy_training.py")
WAITS = Path(__file__).with_name("hierarchy_waits.py")
SIZES = (700, 5000, 400_000)


@pytest.fixture
def served(make_network):
    """Makes hosts with so many ranks each, with a switch and a server on another host: the network,
    each rank's host and the ranks' environment."""

    def make(ranks):
        names = [f"h{number}" for number in range(len(ranks))]
        network = make_network("services", *names)
        route = serve(network)
        hosts = [
            network[name] for name, count in zip(names, ranks, strict=True) for _ in range(count)
        ]
        env = {
            "ATP_ROUTE": route,
            "ATP_HOST_MEMORY": 1,
            "GLOO_SOCKET_IFNAME": "eth0",
        }
        return network, hosts, env

    return make


@pytest.mark.parametrize("ranks", [(2, 2), (4, 1, 3)], ids=str)
def test_a_host_sends_one_gradient_for_all_its_ranks_with_the_same_bits(served, ranks):
    network, hosts, env = served(ranks)
    outputs = run_ranks(network, (sys.executable, RANK, *SIZES), 120, env, hosts)
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert len({way["digest"] for rank in found for way in rank.values()}) == 1
    assert {rank["hosts"]["in_memory"] for rank in found} == {True}
    assert {rank["ranks"]["in_memory"] for rank in found} == {False}
    tensors = 4 * sum(SIZES)
    first = 0
    for count in ranks:
        flat, own = (found[first][way]["sent"] for way in ("ranks", "hosts"))
        # Besides the values there are headers, exponents, exact sums, and what the barriers send.
        assert flat > count * tensors
        assert tensors < own < 1.5 * tensors
        first += count


def test_training_over_hosts_has_the_same_bits_with_loss_and_without_memory(served):
    network, hosts, env = served((2, 2))
    runs = []
    for incarnation, (hierarchy, loss) in enumerate([(0, 0), (1, 0), (1, 1)], start=1):
        if loss:
            for host in set(hosts):
                host.drop(loss)
        options = {"ATP_HIERARCHY": hierarchy, "ATP_INCARNATION": incarnation}
        options |= {"ATP_DIGEST": 1, "STEPS": 20}
        outputs = run_ranks(network, (sys.executable, TRAINING), 120, env | options, hosts)
        runs.append([json.loads(output.splitlines()[-1]) for output in outputs])
    for run, in_memory in zip(runs, (False, True, True), strict=True):
        assert {rank["in_memory"] for rank in run} == {in_memory}
    ranks = [rank for run in runs for rank in run]
    assert len({rank["digest"] for rank in ranks}) == 1
    assert len({rank["parameters"] for rank in ranks}) == 1


@pytest.fixture
def cluster(tmp_path, needs_namespaces):
    cluster = Cluster(tmp_path, ATP, Path(__file__).with_name("two-racks.yaml"))
    try:
        cluster.serve()
        yield cluster
    finally:
        cluster.delete()


def test_atp_run_tells_programs_which_ranks_are_on_which_host(cluster):
    """Hosts with two ranks, one and two, in two racks with a switch each."""
    digests = []
    for incarnation, hierarchy in enumerate((0, 1)):
        job = cluster.start_job(
            ("a1", "a2", "b1"),
            *(ATP, "bench", "allreduce", "-b", "4K", "-e", "256K", "-n", "2", "--digest"),
            options=("--job", 3, "--incarnation", incarnation),
            env={"ATP_HIERARCHY": hierarchy},
        )
        output = cluster.finish(job, 120)[0]
        assert "# Out of bounds values : 0 OK" in output, output
        assert ("in each host's shared memory, then route" in output) == (hierarchy == 1)
        digests.append(re.search(r"# Digest of \d+ results : (\w+)", output)[1])
    assert digests[0] == digests[1]


def rank_process(host, rank):
    """The process of a rank, once it is there."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for pid in host.pids():
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if f"RANK={rank}".encode() in variables and words[1:2] == [b"bench"]:
                    return pid
        time.sleep(0.05)
    raise AssertionError(f"no process of rank {rank} on {host.name}")


@pytest.mark.parametrize("rank", [4, 3], ids=["no leader", "a leader"])
def test_all_hosts_name_a_rank_that_is_killed_under_atp_run(cluster, rank):
    """Ranks 0 and 1 are on a1, 2 on a2, 3 and 4 on b1."""
    job = cluster.start_job(
        ("a1", "a2", "b1"),
        *(ATP, "bench", "allreduce", "-b", "1M", "-e", "1M", "-w", "0", "-n", "100000"),
        options=("--job", 4, "--incarnation", 1),
        env={"ATP_HIERARCHY": 1},
    )
    cluster.network.wait_for_line(job[0], "#wrong", 60)
    killed = rank_process(cluster["b1"], rank)
    os.kill(killed, signal.SIGKILL)
    for host, part in zip(("a1", "a2", "b1"), job, strict=True):
        code, output = cluster.network.wait(part, 60)
        assert code != 0, output
        assert f"rank {rank} (" in output, f"{host}: {output}"


def test_switches_name_the_ranks_own_operation_that_waits_for_a_host(cluster):
    """Not the messages that the hosts' leaders exchange for it. Rank 4 leads no host."""
    cluster.start_job(
        ("a1", "a2", "b1"),
        *(ATP, "bench", "allreduce", "-b", "1M", "-e", "1M", "-w", "0", "-n", "100000"),
        options=("--job", 4, "--incarnation", 1),
        env={"ATP_HIERARCHY": 1},
    )
    nodes = {"a0": "10.77.1.1:5501", "s0": "10.77.3.1:5501", "s1": "10.77.3.11:5500"}
    end = time.monotonic() + 60
    while json.loads(cluster["s1"].exec(ATP, "status", nodes["s1"], "--json"))["fragments"] < 3000:
        assert time.monotonic() < end, "no sums of the job"
        time.sleep(0.05)
    os.kill(rank_process(cluster["b1"], 4), signal.SIGSTOP)
    # Between its sums of 1 MiB the benchmark agrees on whether to go on.
    waits = re.compile(r"waits for .* in all_reduce #\d+ \((262,144|2) values\): .* so far\n")
    end = time.monotonic() + 20
    said = {}
    while not said or not all(map(waits.search, said.values())):
        assert time.monotonic() < end, said
        time.sleep(0.1)
        said = {host: cluster[host].exec(ATP, "status", node) for host, node in nodes.items()}


# Sums that go through a leader name the host of the late rank; its own ranks, and all calls over
# other paths, name the rank itself.
@pytest.mark.parametrize(
    ("ranks", "leader", "call"), [((2, 2), 2, "barrier"), ((3, 1), 3, "broadcast")], ids=str
)
def test_every_rank_says_for_whom_it_waits(served, ranks, leader, call):
    network, hosts, env = served(ranks)
    outputs = run_ranks(network, (sys.executable, WAITS, "all_reduce", call), 120, env, hosts)
    late = sum(ranks) - 1
    for rank, output in enumerate(outputs[:late]):
        said = dict(re.findall(r"^\[(\w+)\]\n((?:atp: .*\n)*)", output, re.MULTILINE))
        names = {call: f"rank {late} (", "all_reduce": f"rank {late} (process "}
        if rank < ranks[0]:
            names["all_reduce"] = f"the host of rank {leader} ("
        for each, name in names.items():
            assert re.search(rf"waiting for (1 s: )?{re.escape(name)}", said[each]), (rank, output)
            assert "resumed" in said[each], (rank, output)
        waited = json.loads(output.splitlines()[-1])
        assert set(waited) <= {str(late), str(leader)} and max(waited.values()) > 1, (rank, waited)
