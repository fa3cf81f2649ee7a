"""ATP_METRICS: a rank's page for Prometheus, read by Prometheus's own parser."""

import contextlib
import os
import pathlib
import re
import signal
import socket
import time
import urllib.error
import urllib.request

import pytest
import torch
import torch.distributed as dist
from prometheus_client.parser import text_string_to_metric_families

import atp.torch
from atp import _C
from atp.torch import _metrics
from lab.ports import consecutive_ports

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "operate" / "metrics.md"
BEGIN, END = "<!-- of ranks: written by python/tests/test_metrics.py -->\n", "<!-- end of ranks -->"


def read(port, path="/metrics"):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as reply:
        assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        page = reply.read().decode()
    samples = {}
    for family in text_string_to_metric_families(page):
        assert family.documentation and family.type != "unknown", family.name
        for sample in family.samples:
            samples[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return samples


def value(samples, name, **labels):
    return sum(
        v for (n, own), v in samples.items() if n == name and labels.items() <= dict(own).items()
    )


def test_a_rank_reports_its_operations_and_the_ranks_it_waits_for_to_prometheus(ranks):
    port = consecutive_ports(3)

    def body(rank):
        os.environ.update(ATP_METRICS=f"127.0.0.1:{port}", LOCAL_RANK=str(rank))
        dist.new_group()  # making a group starts the server
        dist.all_reduce(torch.ones(1000))
        if rank == 1:
            time.sleep(2.5)
            dist.all_reduce(torch.ones(10))
            return read(port + 1)
        work = dist.all_reduce(torch.ones(10), async_op=True)
        waited = {}
        while not work.is_completed() and not waited:
            time.sleep(0.1)
            samples = read(port + rank)
            waited = {k[1]: v for k, v in samples.items() if k[0] == "atp_worker_waiting_seconds"}
        work.wait()
        return waited, read(port + rank)

    (waited, first), late, _ = ranks.run(3, body)
    assert [dict(labels)["for_rank"] for labels in waited] == ["1"]
    assert all(1 <= seconds for seconds in waited.values())
    for samples in (first, late):
        assert (
            value(samples, "atp_worker_operations_total", path="innetwork", operation="all_reduce")
            == 2
        )
        assert value(samples, "atp_worker_operation_bytes_total", path="innetwork") == 4040
        assert value(samples, "atp_worker_gradients_sent_total") > 0
        assert value(samples, "process_cpu_seconds_total") > 0
        assert not any(name == "atp_worker_waiting_seconds" for name, _ in samples)
    assert value(late, "atp_worker_info", rank="1", world_size="3") == 1


def test_only_the_metrics_page_is_served(ranks):
    port = consecutive_ports(1)

    def body(rank):
        os.environ.update(ATP_METRICS=f"127.0.0.1:{port}", LOCAL_RANK="0")
        _metrics.start()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            read(port, "/other")
        return True

    assert ranks.run(1, body) == [True]


@pytest.fixture
def own_server():
    """The address of a page that is "x 1"."""
    server = _C.MetricsServer("127.0.0.1:0", ["a0.example.org"], lambda: "x 1\n")
    host, port = server.address.split(":")
    yield host, int(port)
    server.stop()


def reply_for(address, host):
    with socket.create_connection(address, 10) as client:
        client.sendall(f"GET /metrics HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        return client.makefile().read()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9600", 200),
        (socket.gethostname(), 200),
        ("a0.example.org:9600", 200),
        ("evil.example", 403),
    ],
)
def test_only_requests_for_this_host_are_answered(own_server, host, status):
    reply = reply_for(own_server, host)
    assert int(reply.split()[1]) == status
    assert ("x 1" in reply) == (status == 200)


def test_idle_connections_take_few_descriptors_no_thread_and_no_readers_place(own_server):
    def files():
        return len(os.listdir("/proc/self/fd"))

    def threads():
        return len(os.listdir("/proc/self/task"))

    before = files(), threads()
    idle = [socket.create_connection(own_server, 10) for _ in range(100)]
    for client in idle[::2]:
        with contextlib.suppress(OSError):  # it may be closed already
            client.sendall(b"GET /metrics HTTP/1.1\r\nHost: ")
    assert " 200 " in reply_for(own_server, "localhost")
    assert files() <= before[0] + len(idle) + 64
    assert threads() == before[1]
    for client in idle:
        client.close()


def test_a_page_that_cannot_be_made_is_an_error_of_that_request_alone():
    texts = iter(["", "x 1\n"])
    server = _C.MetricsServer("127.0.0.1:0", [], lambda: next(texts) or 1 / 0)
    host, port = server.address.split(":")
    try:
        reply = reply_for((host, int(port)), "localhost")
        assert " 500 " in reply and "ZeroDivisionError" in reply
        assert " 200 " in reply_for((host, int(port)), "localhost")
    finally:
        server.stop()


def test_a_forked_child_neither_serves_the_page_nor_keeps_its_port():
    server = _C.MetricsServer("127.0.0.1:0", [], lambda: "x 1\n")
    at = server.address
    child = os.fork()
    if child == 0:
        server.stop()  # as at its exit
        time.sleep(60)
        os._exit(0)
    server.stop()
    until = time.monotonic() + 10
    while True:  # the child closes its copy as soon as it runs
        try:
            _C.MetricsServer(at, [], lambda: "x 1\n").stop()
            break
        except RuntimeError:
            assert time.monotonic() < until, "the child keeps the port"
            time.sleep(0.01)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_a_port_in_use_is_a_warning(own_server, monkeypatch, capfd):
    monkeypatch.setenv("ATP_METRICS", f"127.0.0.1:{own_server[1]}")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(_metrics, "_owner", None)
    _metrics.start()
    assert f"no metrics at 127.0.0.1:{own_server[1]}: " in capfd.readouterr().err


@pytest.mark.parametrize("where", ["9600", ":9600", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536"])
def test_an_invalid_address_is_an_error_that_names_the_variable(where, monkeypatch):
    monkeypatch.setenv("ATP_METRICS", where)
    with pytest.raises(ValueError, match="ATP_METRICS.*is not ADDR:PORT"):
        _metrics.start()


def test_the_names_are_conventional():
    names = [*_metrics.METRICS, *map(_metrics.name_of, _metrics.COUNTERS)]
    assert len(names) == len(set(names))
    for name in names:
        assert re.fullmatch(r"(atp_worker|process)(_[a-z]+)+", name), name
    for name, (kind, _, _) in _metrics.METRICS.items():
        assert (kind == "counter") == name.endswith("_total"), name


def test_the_page_in_docs_matches_the_code():
    """ATP_WRITE_DOCS=1 writes it."""
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    assert rest and after, f"{PAGE} lacks its marks"
    wanted = f"{before}{BEGIN}\n{_metrics.table()}\n{END}{after}"
    if os.environ.get("ATP_WRITE_DOCS"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted, "run this with ATP_WRITE_DOCS=1 to rewrite the page"


def test_every_counter_named_here_exists(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(10))
        return set(atp.torch.stats()["counters"])

    in_network = ranks.run(2, body)[0]
    missing = {c for c in _metrics.COUNTERS if not c.startswith(("memory_", "ring_"))} - in_network
    assert not missing
