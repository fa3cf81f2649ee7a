"""Hosts as network namespaces (lab/)."""

import os
from pathlib import Path

import pytest

from lab.network import Network

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
ATP = BUILD / "bin" / "atp"


@pytest.fixture
def make_racks(tmp_path, needs_namespaces):
    assert ATP.exists(), f"{ATP} does not exist: run `make build` first"
    networks = []

    def make(racks, subnet="10.77.0"):
        network = Network(tmp_path, racks, subnet)
        network.atp = ATP
        networks.append(network)
        return network

    yield make
    for network in networks:
        network.delete()


@pytest.fixture
def make_network(make_racks):
    """Hosts behind one bridge."""
    return lambda *names, subnet="10.77.0": make_racks({"rack": names}, subnet)


def serve(network, name="services"):
    """Starts a server and a switch on a host; returns the ranks' route."""
    host = network[name]
    server = host.start(network.atp, "server", "--listen", f"{host.address}:5500")
    network.wait_for_line(server, "listening on")
    upstream = ("--upstream", f"{host.address}/32")
    switch = host.start(network.atp, "switch", "--listen", f"{host.address}:5501", *upstream)
    network.wait_for_line(switch, "listening on")
    return f"{host.address}:5501,{host.address}:5500"
