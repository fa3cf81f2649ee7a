"""The address and port at which the other ranks find a rank."""

import socket

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp import _C
from atp.torch import _address

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
