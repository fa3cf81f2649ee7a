"""Several servers for one job: each completes a part of every large tensor."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.ports import free_ports


def completed(path):
    return json.loads(path.read_text().splitlines()[-1])["counters"]["fragments_completed"]


def test_a_job_with_three_servers_spreads_its_tensors_over_them(cluster):
    bench = cluster.bench("-b", "1K", "-e", "4M", "-f", "16", "-n", "3", "-w", "1")
    stats = cluster.folder / "stats"
    command = [cluster.atp, "run", "-n", "4", "--servers", "3", "--values", "350"]
    done = subprocess.run(
        [*command, "--stats-dir", stats, "--", *bench], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    shares = [completed(stats / f"server-{i}.jsonl") for i in range(3)]
    # Of a 4 MiB tensor's 2,997 fragments each has a third; the small ones go here and there.
    assert min(shares) > 0.3 * sum(shares), shares


def test_as_many_servers_as_ranks_each_in_the_process_of_one(cluster):
    bench = cluster.bench("-b", "1K", "-e", "4M", "-f", "16", "-n", "3", "-w", "1")
    command = [
        cluster.atp,
        "run",
        "-n",
        "4",
        "--colocated-servers",
        "--values",
        "350",
        "--",
        *bench,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "# Out of bounds values : 0 OK" in done.stdout
    assert "server on" not in done.stderr, "no process of its own"


def test_torchs_groups_have_several_servers_too(cluster):
    script = [sys.executable, Path(__file__).with_name("late_rank.py"), cluster.folder / "store"]
    command = [
        cluster.atp,
        "run",
        "-n",
        "3",
        "--colocated-servers",
        "--values",
        "350",
        "--",
        *script,
    ]
    done = subprocess.run([*command, "3", "200000"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_dies_with_its_server_is_named_by_the_others(cluster, victim):
    """Without `atp run`: a switch, and three ranks with a server each."""
    cluster.start_switch()
    servers = [f"127.0.0.1:{port}" for port in free_ports(3)]
    route = ";".join(f"{cluster.switch_address},{server}" for server in servers)
    ranks = [
        cluster.start_rank(
            rank, 3, cluster.endless_bench(), ATP_ROUTE=route, ATP_COLOCATED_SERVER=servers[rank]
        )
        for rank in range(3)
    ]
    cluster.wait_until(lambda: "# " in ranks[0].output(), "all to join")
    time.sleep(1)
    assert all(rank.running() for rank in ranks), ranks[0].output()
    ranks[victim].signal(signal.SIGKILL)
    for rank in (rank for rank in range(3) if rank != victim):
        assert ranks[rank].wait(20) != 0
        assert f"rank {victim}" in ranks[rank].output()


def test_one_dead_server_of_several_ends_all_ranks(cluster):
    """Operations that wait for a rank that has noticed the death must not wait for the time-out."""
    cluster.start_switch()
    ports = free_ports(3)
    servers = []
    for i, port in enumerate(ports):
        command = [cluster.atp, "server", "--listen", f"127.0.0.1:{port}"]
        servers.append(cluster.start(f"server{i}", command))
    route = ";".join(f"{cluster.switch_address},127.0.0.1:{port}" for port in ports)
    ranks = [
        cluster.start_rank(rank, 3, cluster.endless_bench(), ATP_ROUTE=route, ATP_TIMEOUT="1800")
        for rank in range(3)
    ]
    cluster.wait_until(lambda: "# " in ranks[0].output(), "all to join")
    time.sleep(1)
    assert all(rank.running() for rank in ranks), ranks[0].output()
    servers[1].kill()
    for rank in ranks:
        assert rank.wait(20) != 0
        assert f"127.0.0.1:{ports[1]}" in rank.output() or "left the job" in rank.output()
