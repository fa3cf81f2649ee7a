"""A third host forges ICMP errors about the packets of a job.

It knows every address and port, job and incarnation, and has seen no packet. It must not
make the running job or the next one take another path, use smaller fragments, or stop.
"""

import re
import sys
import time
from pathlib import Path

import pytest

RANKS = 2
IPV4, IPV6 = "10.77.0.", "fd00:77::"
FORGE = Path(__file__).parents[2] / "experiments" / "defence" / "forge_icmp.py"
VALUES = "350 values per fragment"  # what an interface with an MTU of 1500 carries


@pytest.fixture
def network(make_network):
    network = make_network("workers", "nodes", "stranger")
    for number, name in enumerate(network.hosts, start=1):
        network[name].exec("ip", "addr", "add", f"{IPV6}{number}/64", "dev", "eth0", "nodad")
    return network


def address(subnet, number, port):
    return f"[{subnet}{number}]:{port}" if ":" in subnet else f"{subnet}{number}:{port}"


def start_nodes(network, subnet):
    server = ("server", "--listen", address(subnet, 2, 5500))
    upstream = ("--upstream", f"{subnet}2")
    switch = ("switch", "--listen", address(subnet, 2, 5501), *upstream)
    for node in (server, switch):
        network.wait_for_line(network["nodes"].start(network.atp, *node), "listening on")


def start_ranks(network, subnet, iterations):
    env = {
        "WORLD_SIZE": RANKS,
        "ATP_JOB": 1,
        "ATP_INCARNATION": 1,
        "ATP_ROUTE": f"{address(subnet, 2, 5501)},{address(subnet, 2, 5500)}",
        "ATP_TIMEOUT": 5,
    }
    size = ("-b", "1M", "-e", "1M", "-w", "0", "-n", iterations, "--counters")
    command = (network.atp, "bench", "allreduce", *size)
    return [network["workers"].start(*command, env={**env, "RANK": r}) for r in range(RANKS)]


def start_forging(network, subnet, error, ranks):
    """Every error that reports packets of the job as undeliverable, for all its sockets."""
    ports = set()
    end = time.monotonic() + 10
    while len(ports) < RANKS and time.monotonic() < end:
        ports = network["workers"].udp_ports()
    assert len(ports) == RANKS, "\n".join(rank.log.read_text() for rank in ranks)
    workers, nodes = f"{subnet}1", f"{subnet}2"
    quotes = [(workers, ",".join(ports), nodes, port) for port in (5500, 5501)]
    # No need to guess to whom a node has sent: its socket is not connected.
    quotes += [(nodes, "5500,5501", workers, 1), (nodes, "5500", nodes, 5501)]
    forgers = [network["stranger"].start(sys.executable, FORGE, error, *quote) for quote in quotes]
    for forger in forgers:
        network.wait_for_line(forger, "forging")
    return forgers


def check(network, ranks):
    outputs = []
    for rank in ranks:
        code, output = network.wait(rank, 60)
        assert code == 0, output
        assert "going straight" not in output, output
        outputs.append(output)
    assert VALUES in outputs[0]
    assert "# Out of bounds values : 0 OK" in outputs[0]
    return dict(re.findall(r"^# +(\w+) (\d+)$", outputs[0], re.MULTILINE))


@pytest.mark.parametrize("error", ["too-big", "unreachable"])
@pytest.mark.parametrize("subnet", [IPV4, IPV6], ids=["IPv4", "IPv6"])
def test_a_stranger_changes_neither_the_running_job_nor_the_next(network, subnet, error):
    start_nodes(network, subnet)
    ranks = start_ranks(network, subnet, iterations=400)  # far longer than a forger takes to start
    start_forging(network, subnet, error, ranks)
    before = check(network, ranks)
    after = check(network, start_ranks(network, subnet, iterations=3))
    assert int(before["udp_icmp_unproven"]) > 0, "nothing forged has reached the job"
    for counters in before, after:
        assert counters.keys().isdisjoint({"detachments", "udp_lost_too_big", "udp_icmp_too_big"})
