"""A router with a wide link (MTU 9000) to the worker and a narrow one (1500) to switch and server.

    worker 10.1.0.1 --9000-- 10.1.0.2 router 10.2.0.1 --1500-- 10.2.0.2 nodes

The worker's own interface says 9000, and JOINs are small, so a job begins with fragments that the
path does not carry.
"""

import pytest

RANKS = 2
IPV4 = ("10.1.0.", "10.2.0.")
IPV6 = ("fd00:1::", "fd00:2::")


def make_routed(make_network):
    network = make_network("worker", "router", "nodes")
    network.link("worker", "router", 9000, IPV4[0], IPV6[0])
    network.link("router", "nodes", 1500, IPV4[1], IPV6[1])
    for switch in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
        network["router"].exec("sh", "-c", f"echo 1 >/proc/sys/net/{switch}")
    for near, far, bits in ((*IPV4, 24), (*IPV6, 64)):
        network["worker"].exec("ip", "route", "add", f"{far}0/{bits}", "via", f"{near}2")
        network["nodes"].exec("ip", "route", "add", f"{near}0/{bits}", "via", f"{far}1")
    return network


def host_of(subnet):
    return f"[{subnet}2]" if ":" in subnet else f"{subnet}2"


def start_nodes(network, host, values):
    nodes = []
    for role, port, *options in (
        ("server", 5500),
        ("switch", 5501, "--upstream", host.strip("[]")),
    ):
        listen = ("--listen", f"{host}:{port}", "--values", values)
        node = network["nodes"].start(network.atp, role, *listen, *options)
        network.wait_for_line(node, "listening on")
        nodes.append(node)
    return nodes


def run_ranks(network, host, values=None, route=None):
    """Two ranks of the worker's host; the larger exit code, and the output of both.

    The first to learn of the narrow path leaves, and all that the other hears is that it left.
    """
    env = {
        "WORLD_SIZE": RANKS,
        "ATP_JOB": 1,
        "ATP_INCARNATION": 1,
        "ATP_ROUTE": route or f"{host}:5501,{host}:5500",
        "ATP_TIMEOUT": 4,
    }
    if values is not None:
        env["ATP_VALUES_PER_FRAGMENT"] = values
    command = (network.atp, "bench", "allreduce", "-b", "1M", "-e", "1M", "-n", "3", "-w", "0")
    ranks = [network["worker"].start(*command, env={**env, "RANK": r}) for r in range(RANKS)]
    codes, outputs = zip(*(network.wait(rank, 30) for rank in ranks), strict=True)
    return max(codes), "".join(outputs)


@pytest.mark.parametrize("subnet", [IPV4[1], IPV6[1]], ids=["IPv4", "IPv6"])
def test_a_fragment_that_the_path_behind_the_first_hop_does_not_carry_is_named(
    make_network, subnet
):
    network = make_routed(make_network)
    host = host_of(subnet)
    start_nodes(network, host, 2226)
    header = 48 if ":" in host else 28
    refusal = (
        f" to switch {host}:5501 carries packets of at most 1,500 bytes (MTU), "
        f"and a fragment of 2,226 values makes one of {8952 + header:,}: set "
        "ATP_VALUES_PER_FRAGMENT=350 or less, or raise the path's MTU"
    )
    code, output = run_ranks(network, host)
    assert code == 1, output
    assert "all_reduce #" in output
    assert refusal in output
    # The router has reported its MTU to this host, so the next job starts with what fits.
    code, output = run_ranks(network, host)
    assert code == 0, output
    assert "350 values per fragment" in output


@pytest.mark.parametrize("subnet", [IPV4[1], IPV6[1]], ids=["IPv4", "IPv6"])
def test_a_fragment_that_the_path_carries_passes(make_network, subnet):
    network = make_routed(make_network)
    host = host_of(subnet)
    start_nodes(network, host, 2226)
    code, output = run_ranks(network, host, values=350)
    assert code == 0, output
    assert "# Out of bounds values : 0 OK" in output


def test_a_path_that_drops_large_packets_without_a_word_is_suspected(make_network):
    network = make_routed(make_network)
    network["router"].exec("nft", "add table inet mute")
    network["router"].exec(
        "nft", "add chain inet mute out { type filter hook output priority 0 ; }"
    )
    network["router"].exec("nft", "add rule inet mute out ip protocol icmp drop")
    host = host_of(IPV4[1])
    start_nodes(network, host, 2226)
    code, output = run_ranks(network, host)
    assert code == 1, output
    assert "not ended within its timeout of 4 s" in output
    hint = "if packets of 8,980 bytes do not get through, set ATP_VALUES_PER_FRAGMENT=350"
    assert hint in output


def test_more_values_than_the_first_hop_carries_are_refused_at_once(make_network):
    network = make_network("worker", "nodes")
    host = network["nodes"].address
    code, output = run_ranks(network, host, values=2226)
    assert code == 1, output
    assert (
        f"asked for 2,226 values per fragment (9,000-byte datagrams), but the route to {host}:5500 "
        "carries at most 350 (MTU 1500): set ATP_VALUES_PER_FRAGMENT=350 or less"
    ) in output


def test_a_node_says_to_whom_the_path_is_too_narrow(make_network):
    network = make_routed(make_network)
    host = host_of(IPV4[1])
    # The worker reaches the switch beside it, and the switch reaches the server through the router.
    start_nodes(network, host, 2226)
    near = f"{IPV4[0]}1"
    options = ("--listen", f"{near}:5501", "--values", 2226, "--upstream", host)
    switch = network["worker"].start(network.atp, "switch", *options)
    network.wait_for_line(switch, "listening on")
    code, output = run_ranks(network, host, route=f"{near}:5501,{host}:5500")
    assert code == 1, output
    assert f" to server {host}:5500 carries packets of at most 1,500" in output
    warning = (
        f"the path to {host} has an MTU of 1500 bytes, so fragments do not "
        "arrive there: start the switch with --values 350 or less"
    )
    assert switch.log.read_text().count(warning) == 1
