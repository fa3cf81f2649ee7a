"""`atp drain`: a switch or server refuses new jobs, says how many are left, ends after the last."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import urllib.request

import pytest

from lab.ports import consecutive_ports
from tests.pages import shown

from .conftest import atp

SECONDS = 30


def drain(cluster, *words):
    return subprocess.run(
        [cluster.atp, "drain", *words], capture_output=True, text=True, timeout=2 * SECONDS
    )


def status(cluster, address, *options):
    return subprocess.run(
        [cluster.atp, "status", address, *options], capture_output=True, text=True, timeout=SECONDS
    ).stdout


def short_bench(cluster):
    return cluster.bench("-b", "1M", "-e", "1M", "-n", "3", "-w", "0")


@pytest.fixture
def job(cluster):
    """A running job of two ranks, with its switch and its server."""
    cluster.server = cluster.start_server()
    cluster.switch = cluster.start_switch()
    ranks = cluster.start_ranks(2, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    return ranks


def finish(ranks):
    """Ends the ranks as their own host would, so that each of them leaves the job."""
    for rank in ranks:
        rank.signal(signal.SIGTERM)
    for rank in ranks:
        rank.wait(SECONDS)


def test_a_node_that_was_stopped_ignores_a_drain_that_nobody_waits_for(cluster):
    server = cluster.start_server()
    server.signal(signal.SIGSTOP)
    asked = drain(cluster, cluster.server_address)
    assert asked.returncode == 1
    assert "it is stopped or without file descriptors" in asked.stderr
    server.signal(signal.SIGCONT)
    for _ in range(3):
        assert json.loads(status(cluster, cluster.server_address, "--json"))["draining"] is False
    assert drain(cluster, cluster.server_address).returncode == 0


@pytest.mark.parametrize("role", ["server", "switch"])
def test_an_empty_node_ends_with_code_0(cluster, role):
    node = cluster.start_server() if role == "server" else cluster.start_switch()
    address = cluster.server_address if role == "server" else cluster.switch_address
    cluster.wait_until(lambda: "listening on" in node.output(), role, SECONDS)
    done = drain(cluster, address, "--wait", "30")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{role} {address}: draining, no jobs left\n{role} {address}: ended\n"
    assert node.wait(SECONDS) == 0
    assert "draining, no jobs left: new jobs are refused" in node.output()
    assert "drained: ended" in node.output()
    assert "stopped by" not in node.output()


@pytest.mark.parametrize("role", ["server", "switch"])
def test_a_node_says_how_many_jobs_are_left_and_ends_after_them(cluster, job, role):
    node, address = getattr(cluster, role), getattr(cluster, f"{role}_address")
    done = drain(cluster, address)
    assert (done.returncode, done.stdout) == (0, f"{role} {address}: draining, 1 job left\n")
    cluster.wait_until(lambda: "draining, 1 job left" in node.output(), "the log line", SECONDS)
    told = shown("docs/operate/status.md", "draining, 2 jobs left").rstrip("\n")
    assert status(cluster, address).splitlines()[1] == told.replace("2 jobs", "1 job")
    assert json.loads(status(cluster, address, "--json"))["draining"] is True
    assert all(rank.running() for rank in job), "the job goes on"

    again = drain(cluster, address)
    assert (again.returncode, again.stdout) == (done.returncode, done.stdout), "may be repeated"
    finish(job)
    assert node.wait(SECONDS) == 0, node.output()
    assert re.search(r"draining, no jobs left\n(.*\n)*.*drained: ended", node.output())


def test_a_server_that_drains_refuses_a_new_job_with_the_reason(cluster, job):
    drain(cluster, cluster.server_address)
    (rank,) = cluster.start_ranks(1, short_bench(cluster), name="late", ATP_INCARNATION=2)
    assert rank.wait(SECONDS) != 0
    assert (
        f"server {cluster.server_address} refused rank 0: the node takes no new jobs, because it "
        "is being drained (`atp drain`); try again when it has been restarted, or use another one"
    ) in rank.output()
    assert all(rank.running() for rank in job)


def test_a_new_job_waits_for_a_server_that_is_back_within_a_lease(cluster):
    server = cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(2, cluster.bench("-b", "1M", "-e", "1M", "-n", "100", "-w", "0"))
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    drain(cluster, cluster.server_address)
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
    (late,) = cluster.start_ranks(1, short_bench(cluster), name="late", ATP_INCARNATION=2)
    assert server.wait(SECONDS) == 0
    cluster.start_server()
    assert late.wait(SECONDS) == 0, late.output()
    assert "# Out of bounds values : 0 OK" in late.output()


def test_a_new_job_bypasses_a_switch_that_drains(cluster, job):
    drain(cluster, cluster.switch_address)
    ranks = [
        cluster.start_rank(r, 2, short_bench(cluster), f"late{r}", ATP_INCARNATION=2)
        for r in range(2)
    ]
    for rank in ranks:
        assert rank.wait(SECONDS) == 0, rank.output()
    assert "# Out of bounds values : 0 OK" in ranks[0].output()
    assert json.loads(status(cluster, cluster.switch_address, "--json"))["drops"] == {
        "refused": json.loads(status(cluster, cluster.switch_address, "--json"))["counters"][
            "drop_refused"
        ]
    }
    (left,) = json.loads(status(cluster, cluster.switch_address, "--json"))["jobs"]
    assert left["incarnation"] == 1, "the new job never got a tree here"


def test_a_job_that_has_only_half_joined_may_be_completed(cluster):
    cluster.start_server()
    cluster.start_switch()
    first = cluster.start_rank(0, 2, short_bench(cluster))
    for address in (cluster.server_address, cluster.switch_address):
        cluster.wait_until(
            lambda address=address: '"job"' in status(cluster, address, "--json"), "rank 0", SECONDS
        )
        assert drain(cluster, address).stdout.endswith(": draining, 1 job left\n")
    second = cluster.start_rank(1, 2, short_bench(cluster))
    for rank in (first, second):
        assert rank.wait(SECONDS) == 0, rank.output()


def test_drain_stops_waiting_in_time_and_says_what_is_left(cluster, job):
    done = drain(cluster, cluster.server_address, "--wait", "1")
    assert done.returncode == 1
    assert f"server {cluster.server_address} is still draining, 1 job left" in done.stderr
    assert (
        "waited 1 s, and the drain is not over; wait longer, or end the rest with SIGTERM"
        in done.stderr
    )


def test_a_node_that_has_been_restarted_meanwhile_counts_as_ended(cluster, job):
    waiting = cluster.start("drain", [cluster.atp, "drain", cluster.switch_address, "--wait", "60"])
    cluster.wait_until(lambda: "1 job left" in waiting.output(), "the drain", SECONDS)
    cluster.switch.signal(signal.SIGTERM)  # a drain does not change what a signal means
    assert cluster.switch.wait(SECONDS) == 0
    assert "stopped by SIGTERM" in cluster.switch.output()
    cluster.start_switch()
    assert waiting.wait(SECONDS) == 0, waiting.output()
    assert waiting.output().endswith("ended\n")


def test_a_successor_of_a_release_without_drains_counts_as_ended():
    """Neither its reply to the drain nor its status says whether it drains."""
    document = b'{"role": "switch", "listen": "a", "version": "0.0.1", "jobs": [], "drops": {}}'
    asked = []

    def reply(listener):
        for _ in range(2):
            connection, _ = listener.accept()
            with connection:
                asked.append(connection.recv(100))
                connection.sendall(asked[-1] + document)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        thread = threading.Thread(target=reply, args=[listener], daemon=True)
        thread.start()
        done = atp("drain", address, "--wait", "30")
        thread.join(SECONDS)
    assert done.returncode == 0, done.stderr
    assert asked == [b"atp-drain 1\n", b"atp-status 1\n"]
    assert done.stdout == f"switch {address}: draining, no jobs left\nswitch {address}: ended\n"


def test_the_metrics_say_that_a_node_drains(cluster, job):
    cluster.switch.kill()
    port_free = cluster.start_switch("--metrics", "127.0.0.1:0")
    said = cluster.wait_until(
        lambda: re.search(r"serving metrics at (http://\S+)", port_free.output()),
        "the page",
        SECONDS,
    )

    def value(name):
        page = urllib.request.urlopen(said[1], timeout=SECONDS).read().decode()
        return re.search(rf"^{name} (\S+)$", page, re.MULTILINE)[1]

    cluster.wait_until(lambda: value("atp_node_jobs") == "1", "the job's return", SECONDS)
    assert value("atp_node_draining") == "0"
    drain(cluster, cluster.switch_address)
    assert value("atp_node_draining") == "1"


def test_all_lanes_drain_and_then_the_node_ends(cluster):
    cluster.server_port = consecutive_ports(3)
    server = cluster.start_server("--lanes", "3")
    cluster.wait_until(lambda: server.output().count("listening on") == 3, "the lanes", SECONDS)
    lanes = f"127.0.0.1:{cluster.server_port}-{cluster.server_port + 2}"
    done = drain(cluster, lanes, "--wait", "30")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("ended") == 3
    assert server.wait(SECONDS) == 0
    assert "stopping the others" not in server.output()


# --- Who may --------------------------------------------------------------------------------------


def test_of_other_users_nobody_but_root_may_ask(cluster):
    """Only root can become another user; run by an ordinary one, this shows only that it may ask.

    status_service_test.cc has the rule as a table."""
    server = cluster.start_server()
    cluster.wait_until(lambda: "listening on" in server.output(), "the server", SECONDS)
    if os.geteuid() != 0:
        assert drain(cluster, cluster.server_address).returncode == 0
        return
    # Another user may not look into root's home, where a checkout may be.
    with tempfile.TemporaryDirectory() as public:
        os.chmod(public, 0o755)
        asked = subprocess.run(
            [shutil.copy(cluster.atp, public), "drain", cluster.server_address],
            **{"capture_output": True, "text": True, "timeout": SECONDS, "user": 65534},
        )
    assert asked.returncode == 1
    assert (
        f"{cluster.server_address} does not drain: on its own host, only root and the user that "
        "runs it (uid 0) may drain it; other hosts must be in the networks of --drain-from"
    ) in asked.stderr
    assert "1 of 1 nodes did not drain" in asked.stderr
    assert "draining" not in server.output()
    assert json.loads(status(cluster, cluster.server_address, "--json"))["draining"] is False


def test_a_node_that_answers_nobody_does_not_drain(cluster):
    server = cluster.start_server("--no-status")
    cluster.wait_until(lambda: "listening on" in server.output(), "the server", SECONDS)
    done = drain(cluster, cluster.server_address)
    assert done.returncode == 1
    assert "nothing listens there over TCP: it has ended, or runs with --no-status" in done.stderr


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [(b"atp-drain 2\n", b"atp-drain 1\n"), (b"atp-drain\n", b""), (b"drain\n", b"")],
)
def test_only_the_whole_request_drains(cluster, request_bytes, reply):
    server = cluster.start_server()
    cluster.wait_until(lambda: "listening on" in server.output(), "the server", SECONDS)
    with socket.create_connection(("127.0.0.1", cluster.server_port), SECONDS) as asker:
        asker.sendall(request_bytes)
        assert asker.recv(1000) == reply
    assert json.loads(status(cluster, cluster.server_address, "--json"))["draining"] is False


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        ([], 2, "the argument 'address' is missing"),
        (["127.0.0.1"], 2, "127.0.0.1"),
        (["127.0.0.1:1,127.0.0.1:2"], 2, "put spaces between addresses"),
        (["127.0.0.1:1", "--wait", "-1"], 2, "--wait"),
        (["127.0.0.1:1"], 1, "cannot drain 127.0.0.1:1: nothing listens there over TCP"),
        (["127.0.0.1:1", "127.0.0.1:2"], 1, "2 of 2 nodes did not drain"),
    ],
)
def test_wrong_use_is_named(words, code, message):
    done = atp("drain", *words)
    assert done.returncode == code, done.stderr
    assert message in done.stderr


def test_the_networks_of_drain_from_are_checked():
    done = atp("server", "--listen", "127.0.0.1:0", "--drain-from", "10.0.0.0/99")
    assert done.returncode == 2
    assert "--drain-from" in done.stderr
