"""A switch and a server of several lanes: nodes on consecutive ports, a part of a tensor each."""

import json
import signal
import socket
import subprocess

import pytest

from lab.ports import consecutive_ports

LANES = 3


class Lanes:
    """A switch and a server of three lanes each."""

    def __init__(self, cluster):
        self.cluster = cluster
        cluster.server_port = consecutive_ports(2 * LANES)
        cluster.switch_port = cluster.server_port + LANES
        self.stats = {role: cluster.folder / f"{role}.jsonl" for role in ("server", "switch")}
        options = ["--lanes", LANES, "--values", "350", "--stats-interval", "0.1"]
        self.server = cluster.start_server(*options, "--stats", self.stats["server"])
        self.switch = cluster.start_switch(*options, "--stats", self.stats["switch"])
        for process, first in (
            (self.server, self.first("server")),
            (self.switch, self.first("switch")),
        ):
            cluster.wait_until(
                lambda process=process: process.output().count("listening on") == LANES,
                f"all lanes from port {first} on",
            )

    def first(self, role):
        return getattr(self.cluster, f"{role}_port")

    @property
    def route(self):
        return ",".join(
            f"127.0.0.1:{self.first(role)}-{self.first(role) + LANES - 1}"
            for role in ("switch", "server")
        )

    def counted(self, role, name):
        files = [self.stats[role].with_name(f"{role}-{lane}.jsonl") for lane in range(LANES)]
        return [json.loads(f.read_text().splitlines()[-1])["counters"][name] for f in files]


@pytest.fixture
def lanes(cluster):
    return Lanes(cluster)


def test_each_lane_of_switch_and_server_has_a_part_of_a_large_tensor(lanes):
    cluster = lanes.cluster
    bench = cluster.bench("-b", "1K", "-e", "4M", "-f", "16", "-n", "3", "-w", "1")
    ranks = cluster.start_ranks(3, bench, ATP_ROUTE=lanes.route)
    for rank in ranks:
        assert rank.wait(60) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    for process in (lanes.switch, lanes.server):
        process.signal(signal.SIGTERM)
        assert process.wait(10) == 0, process.output()
    completed = lanes.counted("server", "fragments_completed")
    assert min(completed) > 0.3 * sum(completed), completed
    summed = lanes.counted("switch", "gradients_summed")
    assert min(summed) > 0.3 * sum(summed), summed


@pytest.mark.parametrize("lane", [0, LANES - 1])
def test_a_lane_that_dies_takes_the_others_along_and_is_named(lanes, lane):
    pids = lanes_of(lanes.server)
    assert len(pids) == LANES
    subprocess.run(["kill", "-KILL", str(pids[lane])], check=True)
    assert lanes.server.wait(10) == 128 + signal.SIGKILL
    assert f"lane {lane} of the server was killed by SIGKILL" in lanes.server.output()
    for port in range(lanes.first("server"), lanes.first("server") + LANES):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", port))  # nobody has it any more


def test_the_lanes_end_with_the_process_that_watches_over_them(lanes):
    pids = lanes_of(lanes.switch)
    lanes.switch.kill()
    lanes.cluster.wait_until(lambda: not any(map(is_running, pids)), "the lanes to end")


def test_one_port_that_is_taken_keeps_all_lanes_from_starting(cluster):
    cluster.server_port = consecutive_ports(2)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", cluster.server_port + 1))
        command = [cluster.atp, "server", "--listen", cluster.server_address, "--lanes", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert f"127.0.0.1:{cluster.server_port + 1}" in done.stderr


def test_atp_run_starts_a_switch_and_a_server_for_each_lane(cluster):
    bench = cluster.bench("-b", "4M", "-e", "4M", "-n", "3", "-w", "1")
    stats = cluster.folder / "stats"
    command = [cluster.atp, "run", "-n", "3", "--lanes", "2", "--values", "350"]
    done = subprocess.run(
        [*command, "--stats-dir", stats, "--", *bench], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    last = {f.stem: json.loads(f.read_text().splitlines()[-1]) for f in stats.iterdir()}
    assert sorted(last) == ["server-0", "server-1", "switch-0", "switch-1"]
    completed = [last[f"server-{lane}"]["counters"]["fragments_completed"] for lane in range(2)]
    assert min(completed) > 0.4 * sum(completed), completed


def lanes_of(process):
    """The processes of a node's lanes, lane 0 first."""
    pid = process.popen.pid
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=True)
    return sorted(int(line) for line in found.stdout.split())


def is_running(pid):
    return subprocess.run(["kill", "-0", str(pid)], capture_output=True).returncode == 0
