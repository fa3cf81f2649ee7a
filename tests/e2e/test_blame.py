"""When something dies or pauses, all ranks name it, and nothing else."""

import json
import signal
import subprocess
import time

import pytest

RANKS = 3
SECONDS = 30


@pytest.fixture
def running(cluster):
    """A running job: server, switch and ranks."""
    server = cluster.start_server("--stats", cluster.folder / "server.jsonl")
    switch = cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "the start", SECONDS)
    time.sleep(1)
    return server, switch, ranks


def said_by_all(cluster, ranks, text):
    cluster.wait_until(
        lambda: all(text in rank.output() for rank in ranks), f"{text!r} from each rank", SECONDS
    )


def test_a_server_that_dies_is_named_and_not_the_switch(cluster, running):
    server, _, ranks = running
    server.kill()
    for rank in ranks:
        assert rank.wait(SECONDS) != 0
        assert f"server {cluster.server_address} does not answer" in rank.output()
        assert "no longer answers" not in rank.output()


def test_a_server_that_pauses_is_named_and_so_is_its_return_but_not_the_switch(cluster, running):
    server, _, ranks = running
    server.signal(signal.SIGSTOP)
    said_by_all(cluster, ranks, f"server {cluster.server_address} does not answer: giving up after")
    server.signal(signal.SIGCONT)
    said_by_all(cluster, ranks, f"server {cluster.server_address} answers again")
    for rank in ranks:
        assert rank.running()
        assert "no longer answers" not in rank.output()


def test_a_switch_that_is_stopped_is_named_and_not_the_server(cluster, running):
    _, switch, ranks = running
    switch.signal(signal.SIGSTOP)
    said_by_all(cluster, ranks, f"switch {cluster.switch_address} no longer answers")
    for rank in ranks:
        assert "server" not in rank.output().split("no longer answers")[0].split("atp: ")[-1]
        assert rank.running()


def test_a_rank_that_pauses_is_named_to_the_others(cluster, running):
    _, _, ranks = running
    ranks[1].signal(signal.SIGSTOP)
    said_by_all(cluster, [ranks[0], ranks[2]], "waiting for rank 1 (127.0.0.1), which has not")
    ranks[1].signal(signal.SIGCONT)
    time.sleep(0.5)
    assert all(rank.running() for rank in ranks)


def fragments_completed(cluster):
    ask = [cluster.atp, "status", cluster.server_address, "--json"]
    said = subprocess.run(ask, capture_output=True, text=True, check=True).stdout
    return json.loads(said)["counters"]["fragments_completed"]


def test_a_rank_may_be_stopped_for_as_long_as_the_servers_lease(cluster):
    cluster.start_server("--lease", 30)
    cluster.start_switch()
    ranks = cluster.start_ranks(RANKS, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in ranks[0].output(), "the start", SECONDS)
    ranks[1].signal(signal.SIGSTOP)
    time.sleep(7)  # longer than the default lease
    ranks[1].signal(signal.SIGCONT)
    before = fragments_completed(cluster)
    cluster.wait_until(lambda: fragments_completed(cluster) > before, "progress", SECONDS)
    assert all(rank.running() for rank in ranks), "\n".join(rank.output() for rank in ranks)


def test_all_others_name_a_rank_that_is_killed_and_how_it_ended(cluster):
    script = """
        if [ $RANK = 2 ]; then (sleep 2; kill -9 $$) & fi
        exec "$0" bench allreduce -b 1M -e 1M -n 1000000 -w 0
    """
    command = [cluster.atp, "run", "-n", RANKS, "--switch", "--tag-output", "--grace", 5, "--"]
    run = cluster.start("run", [*command, "sh", "-c", script, cluster.atp])
    assert run.wait(SECONDS) == 128 + signal.SIGKILL
    cause = "rank 2 (127.0.0.1) left the job before the operation ended: its process was killed"
    for rank in (0, 1):
        said = [line for line in run.output().splitlines() if line.startswith(f"[{rank}] ")]
        assert any(cause in line for line in said), run.output()


def test_ranks_that_wait_are_told_that_one_was_refused(cluster):
    cluster.start_server()
    cluster.start_switch()
    command = cluster.bench("-b", "1K", "-e", "1K", "-n", "1")
    ranks = cluster.start_ranks(2, command, WORLD_SIZE=3, ATP_JOIN_TIMEOUT=8)
    ask = [cluster.atp, "status", cluster.server_address]
    cluster.wait_until(
        lambda: "2 of 3" in subprocess.run(ask, capture_output=True, text=True).stdout,
        "two ranks",
        SECONDS,
    )
    cluster.start_rank(2, 4, command)
    for rank in ranks:
        assert rank.wait(SECONDS) != 0
        said = "rank 2 was refused: it says the job has 4 ranks, ranks 0 and 1 say 3"
        assert rank.output().count(said) == 2, "at once, and when the time is over"
