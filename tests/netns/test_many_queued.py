"""More operations queued at once than anything has places for, with packet loss and a late rank."""

import re
import sys
from pathlib import Path

import pytest

from lab.ranks import run_ranks

PROGRAM = Path(__file__).with_name("queue_many.py")
COUNT = 20_000
LATE_S = 2


def lose(host, of_how_many):
    """Drops incoming packets of a host; returns a function that counts the losses."""
    host.exec("nft", "add table inet lose")
    host.exec("nft", "add chain inet lose in { type filter hook input priority 0 ; }")
    rule = f"meta l4proto {{ tcp, udp }} numgen random mod {of_how_many} == 0 counter drop"
    host.exec("nft", f"add rule inet lose in {rule}")
    return lambda: int(
        re.search(r"packets (\d+)", host.exec("nft", "list", "table", "inet", "lose"))[1]
    )


def serve(network, role, *words):
    address = f"{network[role].address}:5500"
    node = network[role].start(network.atp, role, "--listen", address, *words)
    network.wait_for_line(node, "listening on")
    return address


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize("loss", [False, True], ids=["no loss", "1 % loss"])
def test_twenty_thousand_sums_that_wait_for_a_late_rank(make_network, algorithm, loss):
    network = make_network("switch", "server", "w0", "w1")
    server = serve(network, "server")
    switch = serve(network, "switch", "--upstream", f"{network['server'].address}/32")
    lost = lose(network["w0"], 100) if loss else lambda: 0
    said = run_ranks(
        network,
        (sys.executable, PROGRAM, COUNT, LATE_S),
        240,
        {"ATP_ROUTE": f"{switch},{server}", "ATP_ALGORITHM": algorithm},
        [network["w0"], network["w1"]],
    )
    print("".join(said), f"{lost()} packets lost")
    assert (lost() > 20) == loss  # each is a whole train
    for text in said:
        # The tensors are the caller's; we add a few small objects for each, not a packet.
        assert int(re.search(r"(\d+) bytes each", text)[1]) < 5000
