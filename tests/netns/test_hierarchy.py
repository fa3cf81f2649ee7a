"""Ranks of real hosts that sum in their host's memory before one of them sends."""

import json
import re
import sys
from pathlib import Path

import pytest

from lab.cluster import Cluster
from lab.ranks import run_ranks

from .conftest import ATP

RANK = Path(__file__).with_name("hierarchy_rank.py")
SIZES = (700, 5000, 400_000)


@pytest.mark.parametrize("ranks", [(2, 2), (4, 1, 3)], ids=str)
def test_a_host_sends_one_gradient_for_all_its_ranks_with_the_same_bits(make_network, ranks):
    names = [f"h{number}" for number in range(len(ranks))]
    network = make_network("services", *names)
    services = network["services"]
    server = services.start(network.atp, "server", "--listen", f"{services.address}:5500")
    network.wait_for_line(server, "listening on")
    upstream = ("--upstream", f"{services.address}/32")
    switch = services.start(
        network.atp, "switch", "--listen", f"{services.address}:5501", *upstream
    )
    network.wait_for_line(switch, "listening on")
    hosts = [network[name] for name, count in zip(names, ranks, strict=True) for _ in range(count)]
    env = {
        "ATP_ROUTE": f"{services.address}:5501,{services.address}:5500",
        "ATP_HOST_MEMORY": 1,
        "GLOO_SOCKET_IFNAME": "eth0",
    }
    outputs = run_ranks(network, (sys.executable, RANK, *SIZES), 120, env, hosts)
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert len({way["digest"] for rank in found for way in rank.values()}) == 1
    assert {rank["hosts"]["in_memory"] for rank in found} == {True}
    assert {rank["ranks"]["in_memory"] for rank in found} == {False}
    tensors = 4 * sum(SIZES)
    first = 0
    for count in ranks:
        flat, own = (found[first][way]["sent"] for way in ("ranks", "hosts"))
        # Beside the values there are headers, exponents, exact sums, and what the barriers say.
        assert flat > count * tensors
        assert tensors < own < 1.5 * tensors
        first += count


@pytest.fixture
def cluster(tmp_path, needs_namespaces):
    cluster = Cluster(tmp_path, ATP, Path(__file__).with_name("two-racks.yaml"))
    try:
        cluster.serve()
        yield cluster
    finally:
        cluster.delete()


def test_atp_run_tells_programs_which_ranks_are_on_which_host(cluster):
    """Of two ranks, one and two, in two racks of a switch each."""
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
        digests.append(re.search(r"# Digest of \d+ results : (\w+)", output)[1])
    assert digests[0] == digests[1]
