"""`atp doctor` between hosts with one thing wrong: it finds that, and nothing else."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.pages import shown

# All hosts of these tests are one machine, with its limits and its clock.
OF_THE_MACHINE = {"receive buffer", "send buffer", "clock"}


def start(network, host, role, port, *options):
    node = network[host].start(
        network.atp,
        *(role, "--listen", f"{network[host].address}:{port}", "--values", 350, *options),
        *("--status-from", "10.77.0.0/16"),
    )
    network.wait_for_line(node, "listening on")
    return node


@pytest.fixture
def network(make_network):
    network = make_network("server", "worker")
    network.server = start(network, "server", "server", 5500)
    return network


def doctor(network, port=5500):
    """(exit code, [findings that are not ok])"""
    address = f"{network['server'].address}:{port}"
    command = network["worker"].command(network.atp, "doctor", address, "--json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert result.stdout, result.stderr
    findings = json.loads(result.stdout)["findings"]
    assert {one["kind"] for one in findings} >= OF_THE_MACHINE | {"route"}
    wrong = [one for one in findings if one["severity"] != "good"]
    for one in wrong:
        assert one["expected"] and one["fix"], one
    own = [one for one in wrong if one["kind"] in OF_THE_MACHINE and not one["node"]]
    return result.returncode, [one for one in wrong if one not in own]


def the_one_error(network, check, port=5500):
    code, findings = doctor(network, port)
    assert code == 1
    assert [(one["kind"], one["severity"]) for one in findings] == [(check, "bad")]
    assert findings[0]["node"] == f"{network['server'].address}:{port}"
    return findings[0]


def firewall(host, hook, rule):
    host.exec("nft", "add table inet wall")
    host.exec("nft", f"add chain inet wall {hook} {{ type filter hook {hook} priority 0 ; }}")
    host.exec("nft", f"add rule inet wall {hook} {rule}")


def test_nothing_is_wrong_with_a_switch_and_its_server(network):
    upstream = network["server"].address
    start(network, "server", "switch", 5501, "--upstream", upstream)
    assert doctor(network) == (0, [])
    assert doctor(network, 5501) == (0, [])


def test_a_cluster_file_names_what_is_on_the_routes_of_this_host(network, tmp_path):
    server, worker = network["server"].address, network["worker"].address
    file = tmp_path / "cluster.yaml"
    file.write_text(f"""
racks:
  - name: a
    uplink: core
    switch: {{host: server, port: 5501}}
    hosts:
      - {{name: server, address: {server}}}
      - {{name: worker, address: {worker}, ranks: 1}}
  - name: elsewhere
    uplink: core
    switch: other
    hosts: [{{name: other, address: 10.77.9.9}}]
servers: [server]
""")

    def check(*options):
        command = network["worker"].command(
            network.atp, "doctor", "--cluster", file, "--json", *options
        )
        result = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert result.stdout, result.stderr
        verdicts = {}
        for one in json.loads(result.stdout)["findings"]:
            if one["node"]:
                verdicts.setdefault(one["node"], set()).add((one["kind"], one["severity"]))
        return result.returncode, verdicts

    code, verdicts = check()
    assert code == 1
    assert list(verdicts) == [f"{server}:5501", f"{server}:5500"]
    assert ("answer", "bad") in verdicts[f"{server}:5501"]
    assert ("answer", "good") in verdicts[f"{server}:5500"]
    start(network, "server", "switch", 5501, "--upstream", server)
    assert check("--host", "worker")[0] == 0
    unknown = subprocess.run(
        [network.atp, "doctor", "--cluster", file], capture_output=True, text=True, timeout=20
    )
    assert unknown.returncode == 2
    assert f"the addresses of 0 hosts of {file}, expected one" in unknown.stderr


FAKE_NODE = """
import json, socket, sys, time
listener = socket.create_server((sys.argv[1], 5510))
print("listening on", flush=True)
while True:
    asker, _ = listener.accept()
    asker.recv(100)
    status = {"role": "server", "listen": sys.argv[1], "version": "0.1.0", "wire_version": 2}
    status["time_s"] = time.time() + float(sys.argv[2])
    asker.sendall(b"atp-status 1\\n" + json.dumps(status).encode())
    asker.close()
"""


@pytest.mark.parametrize(
    "seconds, verdict, words",
    [
        (0, "good", " ms"),
        (3, "warning", " ahead of this host's"),
        (-3, "warning", " behind this host's"),
    ],
)
def test_a_nodes_clock_that_differs_is_a_warning(make_network, seconds, verdict, words):
    network = make_network("server", "worker")
    address = network["server"].address
    node = network["server"].start(sys.executable, "-c", FAKE_NODE, address, seconds)
    network.wait_for_line(node, "listening on")
    command = network["worker"].command(network.atp, "doctor", f"{address}:5510", "--json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    findings = {one["kind"]: one for one in json.loads(result.stdout)["findings"] if one["node"]}
    assert findings["clock"]["severity"] == verdict
    assert words in findings["clock"]["text"]


def test_nothing_listens(network):
    assert "nothing listens" in the_one_error(network, "answer", 5509)["text"]


def test_a_firewall_drops_udp(network):
    firewall(network["server"], "input", "udp dport 5500 drop")
    finding = the_one_error(network, "answer")
    assert "a firewall drops it" in finding["text"] and "UDP port 5500" in finding["fix"]


def test_docs_operations_md_shows_the_output_for_a_firewall(network):
    firewall(network["server"], "input", "udp dport 5500 drop")
    address = network["server"].address
    command = network["worker"].command(network.atp, "doctor", f"{address}:5500")
    said = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    page = shown("docs/operate/operations.md", "bad      answer").splitlines()
    at = next(n for n, line in enumerate(said.splitlines()) if line.startswith("bad      answer"))
    printed = said.splitlines()[at : at + len(page)]
    # The address in the column before the answer is padded to the column's width.
    assert [line.split() for line in printed] == [
        line.replace("10.0.0.9", address).split() for line in page
    ]


def test_a_firewall_rejects_udp_as_port_unreachable(network):
    firewall(network["server"], "input", "udp dport 5500 reject")
    assert "a firewall rejects UDP" in the_one_error(network, "answer")["text"]


def test_a_firewall_rejects_udp_as_prohibited(network):
    firewall(network["server"], "input", "udp dport 5500 reject with icmpx type admin-prohibited")
    found = the_one_error(network, "answer")["text"]
    assert f"a firewall at {network['server'].address} rejects packets to it" in found


def test_the_firewall_is_this_hosts(network):
    firewall(network["worker"], "output", "udp dport 5500 drop")
    assert "this host's own firewall" in the_one_error(network, "answer")["text"]


def test_the_node_is_stopped(network):
    for pid in network["server"].pids():
        os.kill(pid, signal.SIGSTOP)
    finding = the_one_error(network, "answer")
    assert "it is stopped" in finding["text"] and "kill -CONT" in finding["fix"]


def test_the_host_is_cut_off(network):
    network.set_link("server", "down")
    finding = the_one_error(network, "answer")
    assert "no response from its host" in finding["text"] and "ping 10.77" in finding["fix"]


def test_there_is_no_route(network):
    command = network["worker"].command(network.atp, "doctor", "192.0.2.1:5500", "--json")
    result = subprocess.run(command, capture_output=True, text=True, timeout=60)
    (finding,) = [one for one in json.loads(result.stdout)["findings"] if one["severity"] == "bad"]
    assert result.returncode == 1 and finding["kind"] == "route"
    assert "unreachable" in finding["text"] and "ip route get 192.0.2.1" in finding["fix"]


def test_packets_are_lost(network):
    network["server"].drop(30)
    code, findings = doctor(network)
    assert code == 0
    assert [(one["kind"], one["severity"]) for one in findings] == [
        ("answer", "warning"),
        ("bandwidth", "warning"),
    ]
    assert "where packets are lost" in findings[0]["fix"]


def test_large_packets_vanish_silently(network):
    """As behind a bridge with a smaller MTU than the hosts."""
    network.set_mtu(9000)
    firewall(network["server"], "input", "udp length > 1480 drop")
    finding = the_one_error(network, "mtu")
    assert "packets of up to 1500 bytes arrive, larger ones vanish" in finding["text"]
    assert "9000 bytes, the MTU of eth0" in finding["expected"]


def test_packets_below_the_usual_least_mtu_vanish_silently(network):
    firewall(network["server"], "input", "udp length > 1180 drop")
    finding = the_one_error(network, "mtu")
    assert "larger ones vanish" in finding["text"]
    arrives = int(re.search(r"packets of up to (\d+) bytes arrive", finding["text"])[1])
    assert 1180 <= arrives <= 1200


def test_a_router_reports_that_packets_are_too_large(make_network):
    network = make_network("worker", "router", "server")
    network.link("worker", "router", 9000, "10.1.0.")
    network.link("router", "server", 1500, "10.2.0.")
    network["router"].exec("sh", "-c", "echo 1 >/proc/sys/net/ipv4/ip_forward")
    network["worker"].exec("ip", "route", "add", "10.2.0.0/24", "via", "10.1.0.2")
    network["server"].exec("ip", "route", "add", "10.1.0.0/24", "via", "10.2.0.1")
    network["server"].address = "10.2.0.2"
    start(network, "server", "server", 5500)
    finding = the_one_error(network, "mtu")
    assert (
        "packets of up to 1500 bytes arrive, larger ones do not, according to a router"
        in finding["text"]
    )


def test_the_bandwidth_does_not_exceed_the_narrowest_link(network):
    shape = ("rate", "100mbit", "burst", 3000, "limit", 1_000_000)
    network["worker"].exec("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", *shape)
    command = network["worker"].command(network.atp, "doctor", "10.77.0.1:5500", "--json")
    report = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60).stdout)
    (found,) = [one["text"] for one in report["findings"] if one["kind"] == "bandwidth"]
    assert 0 < int(found.removeprefix("at least ").removesuffix(" Mbit/s")) < 120


def test_wrong_usage_is_code_2(network):
    for arguments, message in (
        ((), "no route"),
        (("nonsense",), "expected HOST:PORT"),
        (("127.0.0.1:0",), "port"),
        (("127.0.0.1:5500", "--bogus"), "--bogus"),
        (("127.0.0.1:5500", "--cluster", "c.yaml"), "--cluster"),
        (("127.0.0.1:5500", "--host", "a1"), "--cluster"),
        (("--cluster", "/none.yaml"), "/none.yaml"),
    ):
        result = subprocess.run(
            [network.atp, "doctor", *arguments], capture_output=True, text=True, timeout=20
        )
        assert result.returncode == 2 and message in result.stderr, (arguments, result)
