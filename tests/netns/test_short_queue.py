"""A worker whose own interface has a queue shorter than what it sends at once."""

import re

from lab.ranks import run_ranks

K = 350


def start(network, role, *options):
    address = network[role].address
    node = network[role].start(
        network.atp, role, "--listen", f"{address}:5500", "--values", K, *options
    )
    network.wait_for_line(node, "listening on")
    return f"{address}:5500"


def counter(output, name):
    """0 if it is not printed: on a busy machine a queue may never be full."""
    found = re.search(rf"\b{name}\b\D*(\d+)", output)
    return int(found[1]) if found else 0


def test_a_queue_shorter_than_a_train_gets_what_fits_of_it(make_network):
    network = make_network("switch", "server", "w0", "w1")
    for name in ("w0", "w1"):
        network.shape_host(name, mbit=100, queue_bytes=30_000)
    server = start(network, "server")
    switch = start(network, "switch", "--upstream", f"{network['server'].address}/32")
    size = ("-b", "64K", "-e", "64K", "-n", 10, "-w", 1)
    text, _ = run_ranks(
        network,
        (network.atp, "bench", "allreduce", *size, "--counters"),
        60,
        {
            "ATP_JOB": 1,
            "ATP_INCARNATION": 1,
            "ATP_ROUTE": f"{switch},{server}",
            "ATP_VALUES_PER_FRAGMENT": K,
        },
        [network["w0"], network["w1"]],
    )
    assert "# Out of bounds values : 0 OK" in text, text
    sent, lost = counter(text, "gradients_sent"), counter(text, "udp_lost_queue_full")
    print(f"{sent} fragments, {lost} packets found no room")
    # A train of 32 never fits, so if trains were lost whole nearly all would be, and many twice.
    assert lost < sent / 2, text
