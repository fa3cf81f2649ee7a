"""TCP clients that nobody knows, and logs that nobody reads, do not disturb a node."""

import contextlib
import json
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from lab.ports import free_ports

SECONDS = 20
LIMIT = 64  # descriptors of a node


@pytest.fixture
def few_descriptors(cluster, monkeypatch):
    """Nodes and views that start from now on have few."""
    script = cluster.folder / "few"
    script.write_text(f'#!/bin/sh\nulimit -n {LIMIT} && exec "{cluster.atp}" "$@"\n')
    script.chmod(0o755)
    monkeypatch.setattr(cluster, "atp", script)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 4096 if hard == resource.RLIM_INFINITY else min(4096, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def idle(port, count):
    """So many clients that say nothing, or only the beginning of a request."""
    clients = contextlib.ExitStack()
    for i in range(count):
        client = clients.enter_context(socket.create_connection(("127.0.0.1", port), SECONDS))
        if i % 2:
            with contextlib.suppress(OSError):  # it may be closed already
                client.sendall(b"GET /")
    return clients


def read(port, path):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=SECONDS) as reply:
        return reply.read().decode()


def answers(cluster, address):
    asked = subprocess.run([cluster.atp, "status", address, "--json"], capture_output=True)
    return asked.returncode == 0 and "role" in json.loads(asked.stdout)


@pytest.mark.parametrize("service", ["metrics", "status"])
def test_idle_clients_of_a_switch_stop_neither_readers_nor_sums(cluster, few_descriptors, service):
    metrics = free_ports(1)[0]
    cluster.start_server()
    switch = cluster.start_switch("--metrics", f"127.0.0.1:{metrics}")
    ranks = cluster.start_ranks(2, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)

    def completed():
        page = read(metrics, "/metrics")
        (line,) = [
            x for x in page.splitlines() if x.startswith("atp_switch_gradients_summed_total")
        ]
        return float(line.split()[-1])

    before = len(switch.output())
    with idle(metrics if service == "metrics" else cluster.switch_port, 10 * LIMIT):
        for _ in range(5):
            assert answers(cluster, cluster.switch_address)
        first = completed()
        cluster.wait_until(lambda: completed() > first, "new sums", SECONDS)
        assert len(os.listdir(f"/proc/{switch.popen.pid}/fd")) < LIMIT
    said = switch.output()[before:]
    assert len(said) < 1000 and said.count("closing the oldest") == 1, said


def give_no_more_memory(pid):
    """Whatever the node's own limit allows."""
    with open(f"/proc/{pid}/statm") as file:
        mapped = int(file.read().split()[0]) * resource.getpagesize()
    resource.prlimit(pid, resource.RLIMIT_AS, (mapped + (3 << 20), resource.RLIM_INFINITY))


@pytest.mark.parametrize("role", ["server", "switch"])
def test_a_job_for_which_the_system_has_no_memory_is_refused_and_the_others_go_on(cluster, role):
    server = cluster.start_server("--lease", "3")
    switch = cluster.start_switch()
    first = cluster.start_ranks(2, cluster.endless_bench(), ATP_JOB="1")
    cluster.wait_until(lambda: "values per fragment" in first[0].output(), "the job", SECONDS)
    node = server if role == "server" else switch
    address = getattr(cluster, f"{role}_address")
    give_no_more_memory(node.popen.pid)
    second = cluster.start_ranks(2, cluster.bench("-e", "4K"), ATP_JOB="2")
    for rank in second:  # they go around a switch
        assert rank.wait(SECONDS) == (1 if role == "server" else 0), rank.output()
        if role == "server":
            assert f"server {address} refused " in rank.output(), rank.output()
            assert " MiB there, and only 0 MiB of the memory" in rank.output(), rank.output()
    cluster.wait_until(lambda: "refused (" in node.output(), "a line of the log", SECONDS)
    assert node.running() and all(rank.running() for rank in first)
    assert answers(cluster, address)
    resource.prlimit(
        node.popen.pid, resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    )
    for rank in cluster.start_ranks(2, cluster.bench("-e", "4K"), ATP_JOB="3"):
        assert rank.wait(SECONDS) == 0, rank.output()


def test_a_rank_with_a_server_in_its_process_outlives_a_job_that_finds_no_memory(cluster):
    at = cluster.server_address
    env = {"ATP_ROUTE": at, "ATP_VALUES_PER_FRAGMENT": 2226}

    def start(rank, **more):
        return cluster.start_rank(rank, 2, cluster.bench("-e", "4K"), **env, **more)

    first = start(1, ATP_COLOCATED_SERVER=at)
    cluster.wait_until(lambda: len(os.listdir(f"/proc/{first.popen.pid}/task")) > 2, "threads")
    time.sleep(0.5)  # its JOIN has begun the job, for which there still is memory
    give_no_more_memory(first.popen.pid)
    for rank in (first, start(0)):
        assert rank.wait(SECONDS) == 1, rank.output()
        assert f"server {at} refused " in rank.output(), rank.output()


@contextlib.contextmanager
def streams(port, count):
    """So many readers of the page's stream, each of which opens a new one when it is closed."""
    ends = threading.Event()

    def read_on():
        while not ends.is_set():
            with contextlib.suppress(OSError):
                stream = socket.create_connection(("127.0.0.1", port), SECONDS)
                stream.settimeout(0.5)
                stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                while not ends.is_set() and stream.recv(65536):
                    pass

    readers = [threading.Thread(target=read_on) for _ in range(count)]
    for reader in readers:
        reader.start()
    try:
        yield
    finally:  # threads that read on would keep the process, too
        ends.set()
        for reader in readers:
            reader.join()


def start_view(cluster):
    cluster.start_server()
    port = free_ports(1)[0]
    view = cluster.start(
        "view", [cluster.atp, "view", "--listen", f"127.0.0.1:{port}", cluster.server_address]
    )
    cluster.wait_until(lambda: "atp view of" in view.output(), "the page", SECONDS)
    return port, view


def next_view(port):
    """As a browser's page: it asks again when its stream ends, even before its first view."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(OSError, StopIteration):
            with socket.create_connection(("127.0.0.1", port), SECONDS) as stream:
                stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
                lines = (line for line in stream.makefile() if line.startswith("data: {"))
                return json.loads(next(lines)[6:])
    raise AssertionError(f"no view within {SECONDS} s")


def test_readers_of_the_views_stream_keep_no_other_out(cluster, few_descriptors):
    port, view = start_view(cluster)
    before = len(view.output())
    with streams(port, LIMIT):
        cluster.wait_until(lambda: " streams of " in view.output()[before:], "a crowd", SECONDS)
        times = set()
        for _ in range(5):
            times.add(next_view(port)["time_s"])
            time.sleep(0.5)
        assert len(times) > 1, "the page goes on"
        assert len(os.listdir(f"/proc/{view.popen.pid}/fd")) < LIMIT
    said = view.output()[before:]
    assert len(said) < 1000 and said.count(" streams of ") == 1, said


def test_idle_clients_of_the_view_keep_no_reader_out(cluster, few_descriptors):
    port, view = start_view(cluster)
    before = len(view.output())
    with idle(port, 10 * LIMIT):
        for _ in range(5):
            assert json.loads(read(port, "/view.json"))["nodes"]
    said = view.output()[before:]
    assert len(said) < 1000 and said.count("closing the oldest") == 1, said


def test_a_node_whose_metrics_are_requested_for_another_host_refuses_and_says_what_to_do(cluster):
    port = free_ports(1)[0]
    cluster.start_server("--metrics", f"127.0.0.1:{port}", "--host-name", "a0.example.org")
    for host, status in (("evil.example", 403), ("a0.example.org:9500", 200), ("localhost", 200)):
        with socket.create_connection(("127.0.0.1", port), SECONDS) as client:
            client.sendall(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            reply = client.makefile().read()
        assert f" {status} " in reply.splitlines()[0], host
        assert ("--host-name" in reply) == (status == 403)


def test_a_node_goes_on_when_the_reader_of_its_log_has_gone(cluster):
    for role, port in (("server", cluster.server_port), ("switch", cluster.switch_port)):
        node = subprocess.Popen(
            [cluster.atp, role, "--listen", f"127.0.0.1:{port}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert b"listening on" in node.stdout.readline()
        node.stdout.close()
        node.send_signal(signal.SIGHUP)  # which it logs
        cluster.wait_until(lambda p=port: answers(cluster, f"127.0.0.1:{p}"), role, SECONDS)
        assert node.poll() is None
        node.terminate()
        assert node.wait(SECONDS) == 0


def test_a_job_goes_on_when_the_reader_of_its_output_has_gone(cluster):
    done = cluster.folder / "done"
    script = (
        f"echo a; while ! test -e {cluster.folder}/go; do sleep 0.1; done; echo b; touch {done}"
    )
    options = ["-n", "2", "--tag-output", "--switch"]
    job = subprocess.Popen(
        [cluster.atp, "run", *options, "--", "sh", "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    assert job.stdout.readline()
    job.stdout.close()
    (cluster.folder / "go").touch()
    assert job.wait(SECONDS) == 0
    assert done.exists()


@pytest.mark.parametrize("command", [["sim", "--count", "20"], ["help", "run"]])
def test_a_command_that_only_prints_ends_quietly_with_its_reader(cluster, command):
    process = subprocess.Popen(
        [cluster.atp, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()
    _, said = process.communicate(timeout=SECONDS)
    assert b"cannot write" not in said, said
