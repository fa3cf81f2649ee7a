"""The address and port at which the other ranks find a rank."""

import os
import socket

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp import _C
from atp.torch import _address
from atp.torch._address import same_network, this_host

ROUTED = {"master": "10.0.0.7", "switch": "10.0.1.7", "own-name": "127.0.1.1", "six": "[fd00::7]"}


@pytest.fixture
def address_of(monkeypatch):
    """own_host() on a host with these addresses towards others, and only the given variables."""
    monkeypatch.setattr(_address, "_towards", ROUTED.get)
    monkeypatch.setattr(socket, "gethostname", lambda: "own-name")
    for name in ("ATP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)

    def find(route="", **variables):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        return _address.own_host(route)

    return find


@pytest.mark.parametrize(
    "expected, given",
    [
        ("10.0.0.7", {"MASTER_ADDR": "master"}),
        ("10.0.0.7", {"MASTER_ADDR": "master", "route": "switch:5501,server:5500"}),
        ("10.0.1.7", {"route": "switch:5501,server:5500"}),
        ("10.0.1.7", {"MASTER_ADDR": "own-name", "route": "switch:5501"}),
        ("127.0.1.1", {"MASTER_ADDR": "own-name"}),
        ("10.0.1.7", {"MASTER_ADDR": "unknown", "route": "switch:5501"}),
        ("[fd00::7]", {"MASTER_ADDR": "six"}),
        ("127.0.1.1", {}),
        ("127.0.0.1", {"MASTER_ADDR": "unknown"}),
        ("127.0.0.1", {"MASTER_ADDR": "master", "GLOO_SOCKET_IFNAME": "lo"}),
        ("127.0.0.1", {"MASTER_ADDR": "master", "ATP_SOCKET_IFNAME": "lo,eth0"}),
        ("127.0.0.1", {"ATP_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "nope0"}),
    ],
)
def test_the_address_is_the_interfaces_or_the_source_address_to_the_others(
    address_of, expected, given
):
    assert address_of(**given) == expected


@pytest.mark.parametrize(
    "expected, others, routes",
    [
        ("10.0.0.2", ["10.0.0.1:500"], {"10.0.0.1": "10.0.0.2", "192.0.2.1": "10.9.9.9"}),
        ("[fd00::2]", ["[fd00::1]:500"], {"fd00::1": "[fd00::2]"}),
        ("10.0.0.2", ["10.1.0.1:5", "10.0.0.1:5"], {"10.0.0.1": "10.0.0.2"}),
        ("10.9.9.9", [], {"192.0.2.1": "10.9.9.9"}),
        ("[fd00::9]", [], {"2001:db8::1": "[fd00::9]"}),
        ("10.9.9.9", ["10.0.0.1:5"], {"10.0.0.1": "127.0.0.1", "192.0.2.1": "10.9.9.9"}),
    ],
)
def test_ranks_elsewhere_get_the_address_towards_them_or_the_default_routes(
    address_of, monkeypatch, expected, others, routes
):
    monkeypatch.setattr(_address, "_towards", routes.get)
    assert _address.far_host(others) == expected


def test_a_host_with_loopback_alone_says_so_to_ranks_elsewhere(address_of, monkeypatch):
    monkeypatch.setattr(_address, "_towards", {}.get)
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "lo")])
    with pytest.raises(ValueError, match="own-name has no address at which.*ATP_SOCKET_IFNAME"):
        _address.far_host(["10.0.0.1:5"])


def test_a_loopback_interface_is_refused_to_ranks_elsewhere(address_of, monkeypatch):
    monkeypatch.setenv("ATP_SOCKET_IFNAME", "lo")
    with pytest.raises(ValueError, match="ATP_SOCKET_IFNAME='lo' is a loopback interface"):
        _address.far_host(["10.0.0.1:5"])


def test_processes_with_one_network_have_loopback_in_common():
    own = this_host()
    boot, _, rest = own.partition("/")
    assert same_network(own, own)
    assert same_network(own, f"{boot}/another user-{rest}"), "they share no memory, but loopback"
    assert not same_network(own, f"{boot}1/{rest}")
    assert not same_network(own, "another boot-4026531840/4026531837-0")
    assert same_network(own, "unknown-1"), "nothing is known, so nothing is changed"


def test_no_loopback_address_is_given_to_ranks_elsewhere(ranks, monkeypatch):
    """Rank 0 pretends to be on another network; both are reachable at this machine's address."""
    try:
        _address.far_host([])
    except ValueError:
        problem = "this machine has no address but loopback: give an interface one (ip address add)"
        (pytest.fail if os.environ.get("ATP_ALL_TESTS") else pytest.skip)(problem)
    here = this_host()
    monkeypatch.delenv("MASTER_ADDR", raising=False)

    def body(rank):
        own = here if rank else f"another-{here}"
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: own)
        monkeypatch.setattr("atp.torch._backend.own_host", lambda route: "127.0.0.1")
        seen = []
        made = atp.torch._backend.Peers

        def peers(start, **joining):
            seen.append(start.keywords["addresses"])
            return made(start, **joining)

        monkeypatch.setattr("atp.torch._backend.Peers", peers)
        group = dist.new_group(pg_options=atp.torch.Options(algorithm="ring"))
        tensor = torch.ones(3)
        dist.all_reduce(tensor, group=group)
        return tensor.tolist(), seen[0]

    found = ranks.run(2, body)
    assert [summed for summed, _ in found] == [[2.0] * 3] * 2
    assert found[0][1] == found[1][1]
    assert not any(_address.is_loopback(address) for address in found[0][1])


def test_a_missing_interface_is_named(address_of):
    with pytest.raises(ValueError, match="ATP_SOCKET_IFNAME='nope0': this host has no such"):
        address_of(ATP_SOCKET_IFNAME="nope0")


def test_an_invalid_range_of_ports_is_refused(monkeypatch):
    monkeypatch.setenv("ATP_PORT_RANGE", "40000")
    with pytest.raises(ValueError, match=r'ATP_PORT_RANGE="40000" is not FIRST-LAST, two ports'):
        _C.Listener("127.0.0.1")


def free_range(size):
    """Ports that were free a moment ago, below the ephemeral range."""
    for first in range(20_000, 32_000, size):
        try:
            for port in range(first, first + size):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first, first + size - 1
    raise AssertionError("no free ports")


def test_groups_listen_in_the_range_and_a_full_one_is_named(ranks, monkeypatch):
    first, last = free_range(4)
    monkeypatch.setenv("ATP_PORT_RANGE", f"{first}-{last}")

    def body(rank):
        group = dist.new_group()
        tensor = torch.ones(3, dtype=torch.int64)
        dist.all_reduce(tensor, group=group)
        # Two ranks have two groups each, which fill the range.
        with pytest.raises(dist.DistBackendError) as error:
            _C.Listener("127.0.0.1")
        dist.barrier()
        return tensor.tolist(), str(error.value)

    options = atp.torch.Options(algorithm="ring")
    for tensor, text in ranks.run(2, body, pg_options=options):
        assert tensor == [2, 2, 2]
        assert f"{first}" in text and f"{last}" in text, text
