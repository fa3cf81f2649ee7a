"""Hosts as network namespaces (lab/). Without root or its tools the tests here fail with what to
install; they are never skipped silently.
"""

import os
import shutil
from pathlib import Path

import pytest

from lab.network import Network

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
ATP = BUILD / "bin" / "atp"


@pytest.fixture(scope="session")
def needs_namespaces():
    if os.geteuid() != 0:
        pytest.fail("network namespaces need root: run the tests as root, or with sudo")
    for tool in ("ip", "tc", "nft", "ethtool"):
        if shutil.which(tool) is None:
            pytest.fail(f"`{tool}` is missing: run tools/setup --dev")
    assert ATP.exists(), f"{ATP} does not exist: run `make build` first"


@pytest.fixture
def make_racks(tmp_path, needs_namespaces):
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
