"""A job between hosts whose firewalls admit only the ports that docs/operate/operations.md names.

Apart from TCP's own answers, no packet passes because one was sent the other way."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.ranks import run_ranks

REPOSITORY = Path(__file__).resolve().parents[2]
RANGE = "40000-40031"
STORE = 29500  # that of lab.ranks, as for a job whose number ends in 000
SERVICES = "services"

RANK = """
import torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
rank, size = dist.get_rank(), dist.get_world_size()
summed = torch.full((100_000,), float(rank))
dist.all_reduce(summed)
assert torch.equal(summed, torch.full((100_000,), size * (size - 1) / 2)), summed
between = torch.full((1000,), rank, dtype=torch.int64)
dist.all_reduce(between)
dist.barrier(group=dist.new_group())
assert between.eq(size * (size - 1) // 2).all(), between
dist.send(between, (rank + 1) % size) if rank % 2 == 0 else dist.recv(between, rank - 1)
words = [None] * size
dist.all_gather_object(words, f"rank {rank}")
assert words == [f"rank {number}" for number in range(size)], words
used = atp.torch.stats()
dist.barrier()
dist.destroy_process_group()
for path, dtype in (("innetwork", "float32"), ("peers", "int64")):
    assert used[path]["all_reduce"][dtype]["calls"] > 0, used
print("all sums are right")
"""


def port_table():
    """(protocols, ports, where) of each row: "UDP 5500", "TCP, ephemeral, or one of …"."""
    text = (REPOSITORY / "docs" / "operate" / "operations.md").read_text()
    table = text.split("## Ports\n")[1].split("\n\n")[0].strip()
    for row in table.splitlines()[2:]:
        what, where, _ = (cell.strip() for cell in row.strip("|").split("|"))
        yield what, where


def rules(what):
    """The nftables rules that a reader of the row would write."""
    if "ATP_PORT_RANGE" in what:
        ports = RANGE
    elif found := re.search(r"29500 \+ job", what):
        ports = STORE
    elif found := re.search(r"(\d+)(?:, (\d+))?$", what):
        ports = "{ " + ", ".join(filter(None, found.groups())) + " }"
    else:
        return []  # of options that are not given here
    return [f"{protocol.lower()} dport {ports} accept" for protocol in re.findall("UDP|TCP", what)]


def close(host, but_for):
    host.exec("nft", "add table inet wall")
    chain = "{ type filter hook input priority 0 ; policy drop ; }"
    host.exec("nft", f"add chain inet wall in {chain}")
    always = ("iif lo accept", "meta l4proto { icmp, ipv6-icmp } accept")
    answers = "meta l4proto tcp ct state established accept"
    for rule in (*always, answers, *but_for):
        host.exec("nft", f"add rule inet wall in {rule}")


FAMILIES = {"IPv4": "10.77.0.", "IPv6": "fd00:77::"}


def endpoint(address, port):
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


@pytest.fixture(params=FAMILIES)
def walled(make_network, request):
    """Creates two hosts for ranks and one for switch and server, open only as the table says."""

    def make(without=()):
        network = make_network(SERVICES, "one", "two")
        network.address_of = {}
        for number, host in enumerate(network.hosts.values(), 1):
            address = FAMILIES[request.param] + str(number)
            network.address_of[host.name] = address
            if request.param == "IPv6":
                host.exec("ip", "-4", "address", "flush", "dev", "eth0")
                host.exec("ip", "address", "add", f"{address}/64", "dev", "eth0", "nodad")
            is_services = host.name == SERVICES
            opened = [
                rule
                for what, where in port_table()
                if ("workers" in where or "job's first host" in where) != is_services
                for rule in rules(what)
                if not any(word in rule for word in without)
            ]
            assert len(opened) >= 2, opened
            close(host, opened)
        at = network.address_of[SERVICES]
        server = network[SERVICES].start(network.atp, "server", "--listen", endpoint(at, 5500))
        switch = network[SERVICES].start(
            *(network.atp, "switch", "--listen", endpoint(at, 5501), "--upstream", at)
        )
        network.wait_for_line(server, "server listening")
        network.wait_for_line(switch, "switch listening")
        return network

    return make


def run(network, **more):
    at = network.address_of[SERVICES]
    env = {
        "ATP_ROUTE": f"{endpoint(at, 5501)},{endpoint(at, 5500)}",
        "MASTER_ADDR": network.address_of["one"],
        "ATP_PORT_RANGE": RANGE,
        "ATP_JOIN_TIMEOUT": 10,
        **more,
    }
    hosts = [network["one"], network["two"]]
    return run_ranks(network, (sys.executable, "-c", RANK), 100, env, hosts)


def test_a_job_runs_through_a_firewall_that_is_opened_by_the_port_table_alone(walled):
    for said in run(walled()):
        assert "all sums are right" in said, said


@pytest.mark.parametrize(
    "without, env",
    [("udp dport 40000", {}), ("nothing", {"ATP_PORT_RANGE": ""})],
    ids=["a port of the table that is closed", "a rank that is told no range"],
)
def test_what_the_firewall_keeps_out_ends_in_bounded_time(walled, without, env):
    with pytest.raises(SystemExit) as failure:
        run(walled(without=(without,)), **env)
    text = str(failure.value)
    server = r"(10\.77\.0\.|\[fd00:77::)\d+\]?:5500"
    assert re.search(f"no answer within 10 s from server {server} through", text), text
    assert "Do firewalls let this rank's UDP packets" in text, text


def test_the_rules_are_those_that_nftables_has(walled):
    network = walled()
    kept = subprocess.run(
        network[SERVICES].command("nft", "list", "table", "inet", "wall"),
        capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "policy drop" in kept and "5501" in kept and "40000" not in kept, kept
