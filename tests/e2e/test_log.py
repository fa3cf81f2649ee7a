"""`--log-format json`: every line is an object, and names job and ranks where it is about them.
Misspelt variables are logged first."""

import json
import os
import re
import signal
import sys
import time
from datetime import datetime

import pytest

from tests.pages import REPOSITORY, shown

from .conftest import atp

SECONDS = 30
OPERATION = r" in all_reduce #[0-9]+ \([0-9,]+ values\)"
ALWAYS = {"time", "level", "command", "message"}


def parsed(text):
    """The lines of a log, each an object with the keys that docs/operate/operations.md promises."""
    objects = []
    for line in text.splitlines():
        if not line.startswith("{"):
            continue  # what a node prints on standard output: "atp server listening on …"
        entry = json.loads(line)
        assert set(entry) >= ALWAYS, line
        assert set(entry) <= ALWAYS | {"job", "incarnation", "ranks"}, line
        assert datetime.fromisoformat(entry["time"]).tzinfo is not None
        assert entry["level"] in ("debug", "info", "warning", "error")
        for key in ("job", "incarnation"):
            assert isinstance(entry.get(key, 0), int), line
        assert all(isinstance(rank, int) for rank in entry.get("ranks", [])), line
        objects.append(entry)
    return objects


def about(entries, words):
    return [entry for entry in entries if words in entry["message"]]


def test_nodes_name_the_job_and_the_ranks_that_it_waits_for(cluster):
    nodes = [
        cluster.start_server("--log-format", "json"),
        cluster.start_switch("--log-format", "json"),
    ]
    ranks = cluster.start_ranks(3, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "the start", SECONDS)
    ranks[2].signal(signal.SIGSTOP)
    for node in nodes:
        cluster.wait_until(lambda n=node: "waits for rank 2" in n.output(), "the line", SECONDS)
    ranks[2].signal(signal.SIGCONT)
    for node in nodes:
        cluster.wait_until(lambda n=node: "no longer waits" in n.output(), "the end", SECONDS)
        entries = parsed(node.output())
        for words in ("waits for", "no longer waits"):
            for entry in about(entries, words):
                assert (entry["job"], entry["incarnation"]) == (cluster.job, 1)
                assert entry["ranks"] == [2]
                assert entry["level"] == "warning"
                assert "for rank 2 (127.0.0.1) in" in entry["message"]
                assert re.search(OPERATION, entry["message"])


def test_nodes_name_the_ranks_that_are_gone_while_others_go_on(cluster):
    server = cluster.start_server("--log-format", "json")
    switch = cluster.start_switch("--log-format", "json")
    ranks = cluster.start_ranks(3, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "the start", SECONDS)
    ranks[1].kill()
    # Rank 1 is lost after four to five seconds, so rank 2 leaves. Rank 0 keeps the job alive.
    time.sleep(3)
    ranks[0].signal(signal.SIGSTOP)
    cluster.wait_until(lambda: "silent for a lease: lost" in server.output(), "the end", SECONDS)
    lost = about(parsed(server.output()), "silent for a lease: lost")[0]
    assert (lost["job"], lost["incarnation"], lost["ranks"]) == (cluster.job, 1, [1])
    for node in (server, switch):
        cluster.wait_until(lambda n=node: "rank 2 left" in n.output(), "the rank", SECONDS)
        (left,) = about(parsed(node.output()), "rank 2 left")
        assert (left["job"], left["ranks"], left["level"]) == (cluster.job, [2], "info")


def test_the_line_that_the_page_shows_has_these_keys():
    (example,) = parsed(
        shown("docs/operate/operations.md", '{"time": "2026-03-01T09:30:12.417+01:00",')
    )
    assert set(example) == ALWAYS | {"job", "incarnation", "ranks"}
    assert re.fullmatch(
        rf"job 7 waits for rank 2 \(10\.0\.1\.2\){OPERATION}: 1 s so far", example["message"]
    )
    page = (REPOSITORY / "docs" / "operate" / "operations.md").read_text()
    assert all(f"`{key}`" in page for key in example)


def test_atp_run_names_the_rank_that_failed_and_its_job():
    failing = "import os, sys; sys.exit(7 if os.environ['RANK'] == '1' else 0)"
    command = ("run", "-n", "2", "--log-format", "json", "--", sys.executable, "-c", failing)
    done = atp(*command)
    assert done.returncode == 7
    entries = parsed(done.stderr)
    assert len(entries) == len(done.stderr.splitlines()), "nothing but objects"
    (started,) = about(entries, "started 2 of 2 ranks of job")
    (failed,) = about(entries, "rank 1 exited with code 7")
    assert started["job"] == failed["job"] == int(re.search(r"job (\d+)", started["message"])[1])
    assert started["incarnation"] == failed["incarnation"]
    assert failed["ranks"] == [1] and "ranks" not in started


def test_the_line_about_a_program_that_does_not_exist_names_rank_0():
    done = atp("run", "-n", "2", "--log-format", "json", "--", "./no-such-program")
    (failed,) = about(parsed(done.stderr), "no-such-program")[-1:]
    assert failed["level"] == "error" and failed["ranks"] == [0]


def test_in_text_the_message_alone_is_shown():
    failing = [sys.executable, "-c", "import sys; sys.exit(3)"]
    done = atp("run", "-n", "1", "--", *failing)
    (line,) = [line for line in done.stderr.splitlines() if "error" in line]
    assert line.endswith(" atp run error: rank 0 exited with code 3"), line


@pytest.mark.parametrize(
    "words",
    [
        ["doctor"],
        ["server", "--listen", "localhost:1", "--keys", "/nowhere"],
        ["switch", "--listen", "localhost:1", "--upstream", "10.0.0.9", "--keys", "/nowhere"],
        ["status", "localhost:1", "--timeout", "0.1"],
        ["bench", "allreduce"],
        ["plan", "matrix", "--cluster", "/nowhere"],
        ["sim", "--count", "1"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_names_a_misspelt_variable_once(words):
    left_out = ("LOCAL_RANK", "ATP_WILLS")
    environment = {name: value for name, value in os.environ.items() if name not in left_out}
    result = atp(*words, env={**environment, "ATP_ROUT": "10.0.0.9:5500"})
    assert result.stderr.count("ATP_ROUT is unknown; did you mean ATP_ROUTE?\n") == 1
    assert result.stderr.splitlines()[0].endswith("ATP_ROUTE?")  # before what may be due to it
