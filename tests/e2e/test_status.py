"""`atp status`: what a switch and a server know, and the error where there is neither."""

import contextlib
import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from tests.pages import shown

SECONDS = 20


def status(cluster, address, *options):
    return subprocess.run(
        [cluster.atp, "status", address, *options], capture_output=True, text=True, timeout=SECONDS
    )


def document(cluster, address):
    result = status(cluster, address, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def start_server(cluster, *options):
    """The server prints its address once all its ports are listening."""
    server = cluster.start_server(*options)
    cluster.wait_until(lambda: "listening on" in server.output(), "the server", SECONDS)
    return server


@pytest.fixture
def running(cluster):
    """A running job of two ranks."""
    cluster.start_server()
    cluster.start_switch()
    ranks = cluster.start_ranks(2, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "all to join", SECONDS)
    return ranks


def test_a_server_shows_jobs_ranks_and_what_switches_have_summed(cluster, running):
    cluster.wait_until(
        lambda: document(cluster, cluster.server_address)["fragments"] > 0, "sums", SECONDS
    )
    status = document(cluster, cluster.server_address)
    assert status["role"] == "server"
    assert status["listen"] == cluster.server_address
    (job,) = status["jobs"]
    assert (job["job"], job["incarnation"], job["world_size"]) == (cluster.job, 1, 2)
    assert job["state"] == "running"
    assert job["joined"] == [0, 1]
    assert job["hosts"] == ["127.0.0.1", "127.0.0.1"]
    assert job["missing"] == job["detached"] == job["lost"] == job["left"] == []
    assert 0 < job["fragments_summed_in_switches"] <= job["fragments"] <= status["fragments"]
    assert status["counters"]["joins"] > 0


def test_a_switch_shows_trees_aggregators_and_collisions(cluster, running):
    cluster.wait_until(
        lambda: document(cluster, cluster.switch_address)["sums_completed"] > 0, "sums", SECONDS
    )
    status = document(cluster, cluster.switch_address)
    assert status["role"] == "switch"
    assert status["aggregators"]["total"] == 16384
    (job,) = status["jobs"]
    assert (job["job"], job["joined"]) == (cluster.job, [0, 1])
    assert job["parent"] == cluster.server_address
    assert job["aggregators"]["size"] == 16384
    assert status["collisions"] == status["counters"]["collisions"]


def test_text_is_a_short_table(cluster, running):
    for address, role in (
        (cluster.server_address, "server"),
        (cluster.switch_address, "switch"),
    ):
        result = status(cluster, address)
        assert result.returncode == 0, result.stderr
        lines = result.stdout.splitlines()
        assert lines[0].startswith(f"{role} {address} (atp ")
        assert re.search(rf"^ *{cluster.job} +1 ", result.stdout, re.MULTILINE), result.stdout
        assert "2 of 2" in result.stdout
        assert lines[-1].startswith("  dropped: ")
        assert len(lines) <= 6


def test_who_is_missing_and_what_was_dropped(cluster):
    start_server(cluster)
    cluster.start_switch()
    cluster.start_rank(0, 3, cluster.endless_bench())
    cluster.wait_until(lambda: document(cluster, cluster.server_address)["jobs"], "rank 0", SECONDS)
    (job,) = document(cluster, cluster.server_address)["jobs"]
    assert (job["state"], job["joined"], job["missing"]) == ("joining", [0], [1, 2])
    assert job["hosts"] == ["127.0.0.1", None, None]
    assert "ranks 1 and 2 missing" in status(cluster, cluster.server_address).stdout

    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        stranger.sendto(b"hello", ("127.0.0.1", cluster.server_port))
    cluster.wait_until(
        lambda: document(cluster, cluster.server_address)["drops"] == {"too_short": 1},
        "the drop",
        SECONDS,
    )
    assert "dropped: too_short 1" in status(cluster, cluster.server_address).stdout


def test_a_lost_rank_is_named_by_the_server_when_its_job_is_over(cluster, running):
    running[1].kill()

    def failures():
        return document(cluster, cluster.server_address)["failures"]

    (failure,) = cluster.wait_until(failures, "the end of its lease", SECONDS)
    assert (failure["job"], failure["incarnation"], failure["rank"]) == (cluster.job, 1, 1)
    assert "rank 1" in failure["why"] and "rank 0" not in failure["why"]
    assert f"job {cluster.job} failed" in status(cluster, cluster.server_address).stdout


TRICKLE = "trickle"


def trickle(connection):
    with contextlib.suppress(OSError):  # until the other side has had enough
        connection.sendall(b"atp-status 1\n{")
        while True:
            time.sleep(0.1)
            connection.sendall(b" ")


def answering(reply):
    """A TCP server that accepts one connection, sends this and closes.

    None: it sends nothing; TRICKLE: an answer that never ends, byte by byte.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        connection, _ = listener.accept()
        with connection:
            if reply is None:
                time.sleep(SECONDS)
            elif reply is TRICKLE:
                trickle(connection)
            else:
                connection.sendall(reply)
                connection.recv(100)

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{listener.getsockname()[1]}", listener


def test_docs_status_md_shows_what_is_printed(cluster):
    job = {
        **{"job": 7, "incarnation": 1, "first_stream": 0, "streams": 2, "world_size": 4},
        **{"parent": "127.0.0.1:5500", "joined": [0, 1, 2, 3], "detached": [], "left": []},
        "aggregators": {
            **{"held": 12, "part": 16_384, "weight": 1},
            **{"gradients": 10_000, "collided": 0, "gain": 0.21},
        },
        "stuck": {
            **{"ranks": [{"rank": 2, "host": "10.0.1.2"}], "waited_s": 3.2},
            "operation": "all_reduce #17 (1,000 values)",
        },
        "lateness": [
            {"rank": 0, "first_p50_us": 0, "first_p99_us": 0, "last_p50_us": 0, "last_p99_us": 0},
            {
                **{"rank": 2, "first_p50_us": 40_200, "first_p99_us": 78_900},
                **{"last_p50_us": 40_400, "last_p99_us": 79_000},
            },
        ],
    }
    switch = {
        **{"role": "switch", "listen": "127.0.0.1:5501", "version": "0.1.0", "jobs": [job]},
        **{"sums_completed": 48_213, "collisions": 17, "drops": {}},
        "aggregators": {"total": 16_384, "held": 12, "enough": 32_768},
    }

    def printed():
        address, _ = answering(f"atp-status 1\n{json.dumps(switch)}".encode())
        return status(cluster, address).stdout

    page = "docs/operate/status.md"
    stuck, late = shown(page, "job 7 waits for"), shown(page, "job 7: straggler rank 2")
    table = shown(page, "$ atp status").partition("\n")[2]
    before, dropped = table.rstrip("\n").rsplit("\n", 1)
    assert printed() == f"{before}\n{stuck}{late}{dropped}\n"
    job["stuck"], job["lateness"] = None, []
    assert printed() == table
    job["aggregators"]["collided"] = 300
    assert shown(page, "aggregators are scarce") in printed()


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "is not an atp switch or server"),
        (b"", "closed the connection without an answer"),
        (b"atp-status 7\n", 'found "atp-status 7", expected "atp-status 1"'),
        (b"atp-status \x1b[31m\n", 'found "atp-status  [31m", expected "atp-status 1"'),
        (b"atp-status 1\n{", "cannot be read"),
        (b"atp-status 1\n[1]", "cannot be read"),
        (None, "sent nothing within 2 s"),
        (TRICKLE, "sent no complete answer within 2 s"),
    ],
)
def test_what_is_not_a_node_of_this_version_is_reported(cluster, reply, message):
    address, listener = answering(reply)
    with listener:
        result = status(cluster, address)
    assert result.returncode == 1
    assert message in result.stderr
    assert address in result.stderr


@pytest.mark.parametrize(
    ("address", "code", "message"),
    [
        ("127.0.0.1:1", 1, "no status from 127.0.0.1:1: Connection refused"),
        ("127.0.0.1", 2, "127.0.0.1"),
        ("no-such-host.invalid:5500", 2, "no-such-host.invalid"),
    ],
)
def test_a_wrong_address_is_named(cluster, address, code, message):
    result = status(cluster, address)
    assert result.returncode == code
    assert message in result.stderr


def test_a_node_that_is_stopped_is_reported(cluster):
    server = start_server(cluster)
    server.signal(signal.SIGSTOP)
    result = status(cluster, cluster.server_address)
    assert result.returncode == 1
    assert "sent nothing within 2 s" in result.stderr


def test_a_node_may_be_told_to_answer_nobody(cluster):
    start_server(cluster, "--no-status")
    assert (
        f"no status from {cluster.server_address}: Connection refused"
        in status(cluster, cluster.server_address).stderr
    )


@pytest.mark.parametrize(
    ("request_bytes", "reply"),
    [
        (b"atp-status 2\n", b"atp-status 1\n"),
        (b"GET / HTTP/1.1\r\n\r\n", b""),
        (b"atp-status 1" + b" " * 1000 + b"\n", b""),
        (b"", b""),
    ],
)
def test_a_node_answers_nothing_but_the_question(cluster, request_bytes, reply):
    start_server(cluster)
    with socket.create_connection(("127.0.0.1", cluster.server_port), SECONDS) as asker:
        received = b""
        try:
            asker.sendall(request_bytes)
            asker.shutdown(socket.SHUT_WR)
            while more := asker.recv(1000):
                received += more
        except OSError:
            pass  # the node has closed the connection on a request that was too long
        assert received == reply
    assert document(cluster, cluster.server_address)["role"] == "server", "and goes on"


def test_a_silent_client_blocks_others_for_a_bounded_time(cluster):
    start_server(cluster)
    with socket.create_connection(("127.0.0.1", cluster.server_port), SECONDS):
        cluster.wait_until(
            lambda: status(cluster, cluster.server_address).returncode == 0, "an answer", SECONDS
        )


def test_the_host_itself_may_ask_from_any_address_of_loopback(cluster):
    """Such as the addresses of a cluster file whose hosts are all this machine."""
    start_server(cluster)
    with socket.create_connection(
        ("127.0.0.1", cluster.server_port), SECONDS, source_address=("127.7.7.7", 0)
    ) as asker:
        asker.sendall(b"atp-status 1\n")
        assert asker.recv(1000).startswith(b"atp-status 1\n")


def test_a_taken_port_does_not_stop_a_node(cluster):
    with socket.create_server(("127.0.0.1", cluster.server_port)):
        server = start_server(cluster)
        assert "`atp status` will not be answered" in server.output()


def test_many_silent_clients_are_in_nobodys_way(cluster):
    start_server(cluster)
    at = ("127.0.0.1", cluster.server_port)
    idle = [socket.create_connection(at, SECONDS) for _ in range(500)]
    # Each of them has two seconds; the client waits for up to five.
    assert document(cluster, cluster.server_address)["role"] == "server"
    for connection in idle:
        connection.close()


def test_a_node_says_which_signal_has_stopped_it(cluster):
    for name in ("SIGTERM", "SIGINT"):
        node = start_server(cluster)
        node.signal(getattr(signal, name))
        assert node.wait(SECONDS) == 0
        assert f"stopped by {name} from process" in node.output()
