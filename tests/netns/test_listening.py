"""Nodes that listen on all addresses of a host that has several."""

import pytest

RANKS = 2


def add_addresses(host, *addresses):
    for address in addresses:
        # An IPv6 address may otherwise be "tentative" for a second.
        nodad = ["nodad"] if ":" in address else []
        host.exec("ip", "addr", "add", address, "dev", "eth0", *nodad)


@pytest.mark.parametrize(
    ("listen", "second", "worker"),
    [
        pytest.param("0.0.0.0", "10.77.0.200", None, id="IPv4"),
        pytest.param("[::]", "10.77.0.200", None, id="IPv4 to an IPv6 socket"),
        pytest.param("[::]", "fd00:77::200", "fd00:77::2", id="IPv6"),
    ],
)
def test_a_node_on_all_addresses_answers_from_the_one_that_is_asked(
    make_network, listen, second, worker
):
    network = make_network("nodes", "workers")
    nodes = network["nodes"]
    # The kernel would answer from the first IPv4 address, and from the last IPv6 address.
    add_addresses(nodes, f"{second}/{64 if worker else 24}")
    if worker:
        add_addresses(nodes, "fd00:77::1/64")
        add_addresses(network["workers"], f"{worker}/64")
    upstream = "::/0" if ":" in second else "0.0.0.0/0"
    for role, port, *options in (("server", 5500), ("switch", 5501, "--upstream", upstream)):
        node = nodes.start(network.atp, role, "--listen", f"{listen}:{port}", *options)
        network.wait_for_line(node, "listening on")
    host = f"[{second}]" if ":" in second else second
    ranks = [
        network["workers"].start(
            *(network.atp, "bench", "allreduce", "-b", "256K", "-e", "256K", "-n", "5"),
            env={
                "RANK": rank,
                "WORLD_SIZE": RANKS,
                "ATP_JOB": 1,
                "ATP_INCARNATION": 1,
                "ATP_ROUTE": f"{host}:5501,{host}:5500",
                "ATP_JOIN_TIMEOUT": 10,
            },
        )
        for rank in range(RANKS)
    ]
    for rank in ranks:
        code, output = network.wait(rank, 60)
        assert code == 0, output
        assert "going straight to" not in output


@pytest.mark.parametrize(("options", "code"), [([], 1), (["--status-from", "10.77.0.0/24"], 0)])
def test_other_hosts_get_no_status_unless_their_network_is_named(make_network, options, code):
    network = make_network("node", "other")
    address = f"{network['node'].address}:5500"
    server = network["node"].start(network.atp, "server", "--listen", address, *options)
    network.wait_for_line(server, "listening on")
    for host, expected in (("node", 0), ("other", code)):
        asker = network[host].start(network.atp, "status", address)
        found, output = network.wait(asker, 20)
        assert found == expected, output
