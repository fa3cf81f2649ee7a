"""What really crosses the network, by the kernel's own counters."""

import json
import sys
from pathlib import Path

WORKERS = 4
K = 350


def start_service(network, role, *options):
    host = network[role]
    port = {"server": 5500, "switch": 5501}[role]
    stats = network.folder / f"{role}.jsonl"
    process = host.start(
        *(network.atp, role, "--listen", f"{host.address}:{port}"),
        *("--stats", stats, "--stats-interval", "0.2", "--values", K),
        *options,
    )
    network.wait_for_line(process, "listening on")
    process.stats = stats
    return process


def start_services(network):
    server = start_service(network, "server")
    switch = start_service(network, "switch", "--upstream", f"{network['server'].address}/32")
    return switch, server


def final_counters(process):
    """Ends a switch or server; returns its final counters."""
    process.terminate()
    assert process.wait(10) == 0, process.log.read_text()
    return json.loads(process.stats.read_text().splitlines()[-1])["counters"]


def start_workers(network, job, *command, **env):
    route = f"{network['switch'].address}:5501,{network['server'].address}:5500"
    ranks = []
    for rank in range(WORKERS):
        variables = {
            "RANK": rank,
            "WORLD_SIZE": WORKERS,
            "MASTER_ADDR": network["w0"].address,
            "MASTER_PORT": 29500,
            "GLOO_SOCKET_IFNAME": "eth0",
            "OMP_NUM_THREADS": 1,
            "ATP_JOB": job,
            "ATP_INCARNATION": 1,
            "ATP_ROUTE": route,
            "ATP_VALUES_PER_FRAGMENT": K,
            "ATP_ALGORITHM": "innetwork",
            **env,
        }
        ranks.append(network[f"w{rank}"].start(*command, env=variables))
    return ranks


def finish(network, ranks, seconds=120):
    outputs = []
    for rank in ranks:
        code, output = network.wait(rank, seconds)
        assert code == 0, output
        outputs.append(output)
    return outputs


def make_star(make_network):
    network = make_network("switch", "server", *[f"w{rank}" for rank in range(WORKERS)])
    network.without_segmentation()
    return network


def test_our_counters_agree_with_the_kernels_within_a_percent(make_network):
    network = make_star(make_network)
    switch, server = start_services(network)
    before = {name: network[name].counters() for name in ("server", "switch")}
    ranks = start_workers(
        network, 1, network.atp, "bench", "allreduce", "-b", "4M", "-e", "4M", "-n", "5", "-w", "1"
    )
    output = finish(network, ranks)[0]
    assert "# Out of bounds values : 0 OK" in output, output

    after = {name: network[name].counters() for name in ("server", "switch")}
    ours = {"server": final_counters(server), "switch": final_counters(switch)}
    ethernet_header = 14
    for name in ("server", "switch"):
        for way, direction in (("rx", "in"), ("tx", "out")):
            kernel = after[name][f"{way}_bytes"] - before[name][f"{way}_bytes"]
            counted = ours[name][f"udp_ip_bytes_{direction}"]
            counted += ethernet_header * ours[name][f"udp_datagrams_{direction}"]
            print(f"{name} {way}: kernel {kernel} bytes, ours {counted}")
            assert abs(kernel - counted) < 0.01 * kernel
    # The point of it all: one worker's worth of gradients reaches the server, not four.
    gradient_bytes = 4 * (4 << 20) * 6
    kernel = after["server"]["rx_bytes"] - before["server"]["rx_bytes"]
    print(f"server ingress {kernel} bytes, {gradient_bytes} without a switch")
    assert kernel < 0.4 * gradient_bytes


def count_traffic_from(host, others):
    host.exec("nft", "add table inet watch")
    host.exec("nft", "add chain inet watch in { type filter hook input priority 0 ; }")
    addresses = ", ".join(others)
    host.exec("nft", f"add rule inet watch in ip saddr {{ {addresses} }} counter")


def counted_bytes(host):
    rules = json.loads(host.exec("nft", "-j", "list table inet watch"))["nftables"]
    return sum(
        expression["counter"]["bytes"]
        for rule in rules
        for expression in rule.get("rule", {}).get("expr", [])
        if "counter" in expression
    )


def train(network, job, steps):
    workers = [network[f"w{rank}"] for rank in range(WORKERS)]
    before = sum(counted_bytes(worker) for worker in workers)
    script = Path(__file__).with_name("train.py")
    finish(network, start_workers(network, job, sys.executable, script, STEPS=steps))
    return sum(counted_bytes(worker) for worker in workers) - before


def test_nothing_that_grows_with_the_gradients_passes_between_workers(make_network):
    network = make_star(make_network)
    workers = [network[f"w{rank}"] for rank in range(WORKERS)]
    for worker in workers:
        count_traffic_from(worker, [other.address for other in workers if other is not worker])
    start_services(network)
    short, long = train(network, 1, 2), train(network, 2, 32)
    gradients = 4 * 30 * (256 * 1024 * 2 + 1024 + 256)
    print(
        f"between workers: {short} bytes with 2 steps, {long} with 32; gradients {gradients} more"
    )
    assert short > 0, "the start-up must be seen, or the rule counts nothing"
    assert abs(long - short) < 0.01 * gradients
