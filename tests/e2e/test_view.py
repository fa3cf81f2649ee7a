"""`atp view`: what its HTTP endpoint says about a real job, a frozen rank and dead nodes."""

import http.client
import json
import re
import signal
import socket
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 30


class View:
    """A running `atp view`, queried as a browser would."""

    def __init__(self, cluster, *words):
        command = [cluster.atp, "view", *words, "--listen", "127.0.0.1:0", "--interval", "0.2"]
        self.process = cluster.start("view", command)
        cluster.wait_until(lambda: "http://" in self.process.output(), "the view", SECONDS)
        self.url = re.search(r"http://\S+?/", self.process.output()).group()
        self.wait_until = cluster.wait_until

    def document(self):
        with urllib.request.urlopen(self.url + "view.json", timeout=SECONDS) as reply:
            return json.load(reply)

    def wait_for(self, condition, what):
        """The first document for which condition(document) is true."""

        def found():
            document = self.document()
            return document if document and condition(document) else None

        return self.wait_until(found, what, SECONDS)

    def wait_for_event(self, text):
        self.wait_for(lambda now: any(text in one["text"] for one in now["events"]), text)


@pytest.fixture
def view(cluster):
    cluster.start_server("--lease", "60")
    cluster.switch = cluster.start_switch()
    return View(cluster, cluster.server_address, cluster.switch_address)


@pytest.fixture
def ranks(cluster, view):
    """The ranks of a running job."""
    ranks = cluster.start_ranks(2, cluster.endless_bench())
    view.wait_for(lambda now: now["jobs"] and now["jobs"][0]["goodput_bits"] > 0, "sums")
    return ranks


def node(document, address):
    return next(one for one in document["nodes"] if one["address"] == address)


def test_a_job_is_shown_with_its_ranks_its_rates_and_its_tree(cluster, view, ranks):
    def has_all(now):
        rates = [one["rates"] for one in now["nodes"]]
        return all(rates) and all(one["sums"] > 0 for one in rates)

    now = view.wait_for(has_all, "rates of both nodes")
    assert [one["state"] for one in now["nodes"]] == ["up", "up"]
    assert [one["role"] for one in now["nodes"]] == ["server", "switch"]
    assert now["links"] == [{"from": 1, "to": 0, "is_used": True}]
    (job,) = now["jobs"]
    assert (job["job"], job["world_size"], job["state"]) == (cluster.job, 2, "running")
    assert [(one["rank"], one["via"]) for one in job["ranks"]] == [(0, 1), (1, 1)]
    assert 0 < job["share_summed"] <= 1
    assert node(now, cluster.switch_address)["aggregators"] == 16384
    view.wait_for(lambda now: "first_p50_us" in now["jobs"][0]["ranks"][0], "lateness")
    view.wait_for_event(f"job {cluster.job} runs with 2 ranks")


def test_a_frozen_rank_is_named_and_its_return_is_shown(cluster, view, ranks):
    ranks[1].signal(signal.SIGSTOP)
    text = f"job {cluster.job} waits for rank 1 (127.0.0.1) in all_reduce #"
    now = view.wait_for(lambda now: any(text in one["text"] for one in now["problems"]), text)
    assert now["jobs"][0]["waits_in"].startswith("all_reduce #")
    assert now["jobs"][0]["ranks"][1]["state"] == "stuck"
    ranks[1].signal(signal.SIGCONT)
    view.wait_for_event(f"job {cluster.job} no longer waits for rank 1")


def test_a_dead_switch_is_named_with_the_ranks_that_left_it(cluster, view, ranks):
    killed = time.time()
    cluster.switch.kill()
    text = f"{cluster.switch_address} is dead: Connection refused"
    now = view.wait_for(
        lambda now: any(one["text"] == text for one in now["problems"]), "the problem"
    )
    assert killed <= node(now, cluster.switch_address)["since_s"] < killed + 5
    view.wait_for_event("ranks 0 and 1 left the switch and send straight to the server")
    cluster.start_switch()
    view.wait_for_event(f"{cluster.switch_address} answers again")
    view.wait_for_event("all ranks send through their switches again")


def test_the_end_of_a_job_is_shown(cluster, view):
    ranks = cluster.start_ranks(2, cluster.bench("-b", "1K", "-e", "1K", "-n", "5000"))
    view.wait_for(lambda now: now["jobs"], "the job")
    for rank in ranks:
        assert rank.wait(120) == 0, rank.output()
    view.wait_for_event(f"job {cluster.job} has finished")
    assert view.document()["jobs"] == []


def test_a_server_that_is_stopped_holds_up_no_other_node(cluster, view):
    view.wait_for(lambda now: all(one["state"] == "up" for one in now["nodes"]), "nodes")
    server = cluster.processes[0]
    server.signal(signal.SIGSTOP)
    now = view.wait_for(
        lambda now: node(now, cluster.server_address)["state"] == "silent", "its silence"
    )
    assert node(now, cluster.switch_address)["state"] == "up"
    times = {view.document()["time_s"] for _ in range(20) if not time.sleep(0.1)}
    assert len(times) > 4, "the view goes on"
    server.signal(signal.SIGCONT)
    view.wait_for_event("answers again")


def test_the_stream_sends_each_view_as_an_event(view):
    connection = http.client.HTTPConnection(view.url.split("/")[2], timeout=SECONDS)
    connection.request("GET", "/events")
    reply = connection.getresponse()
    assert reply.headers["Content-Type"] == "text/event-stream"
    assert "Access-Control-Allow-Origin" not in reply.headers
    times = []
    while len(times) < 4:
        line = reply.readline()
        assert line, "the stream goes on"
        if line.startswith(b"data: {"):
            times.append(json.loads(line[6:])["time_s"])
    assert times == sorted(set(times))
    connection.close()


@pytest.mark.parametrize("path", ["", "view.json", "events"])
def test_a_host_name_that_may_be_another_sites_is_refused(view, path):
    request = urllib.request.Request(view.url + path, headers={"Host": "evil.example:5580"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request, timeout=SECONDS)
    assert refused.value.code == 403


def test_it_ends_when_it_is_told_to(cluster, view):
    stream = socket.create_connection(view.url.split("/")[2].split(":"), SECONDS)
    stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    view.process.signal(signal.SIGTERM)
    assert view.process.wait(10) == 0
    stream.close()


def test_a_cluster_file_names_its_nodes(cluster, tmp_path):
    file = tmp_path / "cluster.yaml"
    file.write_text(
        "name: loopback\n"
        "racks:\n"
        f"  - {{name: a, uplink: core, switch: {{host: a0, port: {cluster.switch_port}}}, "
        "hosts: [{name: a0, address: 127.0.0.1}]}\n"
        f"servers: [{{host: a0, port: {cluster.server_port}}}]\n"
    )
    cluster.start_server()
    view = View(cluster, file)
    now = view.wait_for(
        lambda now: all(one["state"] != "unknown" for one in now["nodes"]), "both nodes"
    )
    assert now["name"] == "loopback"
    shown = "atp view of two racks at http://127.0.0.1:5580/"
    assert f"\n{shown}\n" in (REPOSITORY / "docs" / "operate" / "view.md").read_text()
    assert (
        shown.replace("two racks", "loopback").replace("http://127.0.0.1:5580/", view.url)
        in view.process.output()
    )
    states = {one["name"]: one["state"] for one in now["nodes"]}
    assert states == {"server-a0": "up", "switch-a": "dead"}
    (problem,) = now["problems"]
    assert problem["text"] == f"switch-a ({cluster.switch_address}) is dead: Connection refused"


@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        ([], 2, "the argument 'nodes' is missing"),
        (["no-such-file.yaml"], 2, "no-such-file.yaml"),
        (["127.0.0.1:5500", "cluster.yaml"], 2, "'cluster.yaml' is not HOST:PORT"),
        (["127.0.0.1:5500", "--listen", "5580"], 2, "--listen .*5580"),
        (["127.0.0.1:5500", "--listen", "203.0.113.77:5580"], 1, "--listen 203.0.113.77:5580: "),
        (["127.0.0.1:5500", "--interval", "0"], 2, "0.1"),
    ],
)
def test_impossible_arguments_are_named(cluster, words, code, complaint):
    view = cluster.start("view", [cluster.atp, "view", *words])
    assert view.wait(10) == code
    assert re.search(complaint, view.output()), view.output()
