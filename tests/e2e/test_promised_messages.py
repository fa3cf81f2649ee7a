"""Each message that docs/operate/operations.md promises: produced by real processes, and compared.

PRODUCED has a scenario for each; a message on the page that is not in it fails. Numbers and
addresses may differ, and "…" on the page stands for anything.
"""

import re
import signal
import socket
import sys
import time

import pytest

from lab.ports import free_port
from tests.pages import REPOSITORY, without_blocks

from .conftest import atp
from .racks import Cluster as Racks

PAGE = "docs/operate/operations.md"
SECONDS = 30
# What a code span with a space in it begins with if it is not a message.
COMMANDS = (
    "atp ",
    "chgrp ",
    "chmod ",
    "groupadd ",
    "kill ",
    "make ",
    "pip ",
    "ssh ",
    "systemctl ",
    "ulimit ",
    "--",
    "| ",
    ".venv/",
    "lease: ",
)
CHECKS_OF_DOCTOR = ("receive buffer", "send buffer")


def messages():
    spans = re.findall(r"`([^`]+)`", without_blocks((REPOSITORY / PAGE).read_text()))
    plain = (" ".join(span.split()) for span in spans)
    return {s for s in plain if " " in s and not s.startswith(COMMANDS + CHECKS_OF_DOCTOR)}


def pattern(message):
    """What a program may print for it."""
    text = re.escape(message.strip("… ")).replace("…", ".*")
    text = re.sub(r"\d+(\\\.\d+){3}", r"[\\d.]+", text)
    text = re.sub(r"\d+", r"\\d+", text)
    return text.replace(r"\d+\.\d+", r"[\d.]+").replace(r"\d+,\d+", r"[\d,]+")


def test_a_pattern_is_the_message_but_for_its_numbers():
    promised = pattern("rank 2 (10.0.1.2) waited 6.3 s for all_reduce (1,000 values): slow (…)")
    assert re.search(
        promised, "x rank 0 (127.0.0.1) waited 12 s for all_reduce (64 values): slow ()"
    )
    assert not re.search(
        promised, "rank 0 (127.0.0.1) waits 12 s for all_reduce (64 values): slow ()"
    )
    assert re.search(pattern("… does not answer"), "server 1.2.3.4:5 does not answer: x")


# --- Scenarios: what the programs print -----------------------------------------------------------


def start_job(cluster, ranks=3):
    server = cluster.start_server()
    switch = cluster.start_switch()
    job = cluster.start_ranks(ranks, cluster.endless_bench())
    cluster.wait_until(lambda: "values per fragment" in job[0].output(), "the start", SECONDS)
    return server, switch, job


def said(cluster, process, message):
    """The output once the message is in it; or all of it, if the process has ended without it."""
    cluster.wait_until(
        lambda: re.search(pattern(message), process.output()) or not process.running(),
        message,
        SECONDS,
    )
    return process.output()


def a_switch_dies(cluster, message):
    _, switch, job = start_job(cluster)
    switch.kill()
    return said(cluster, job[0], message)


def the_switch_above_dies(cluster, message):
    """What rank 0 and its switch say when the switch above that is killed or stopped."""
    cluster.start_server()
    rack = cluster.start_switch()
    above = f"127.0.0.1:{free_port()}"
    spine = cluster.start("spine", [cluster.atp, "switch", "--listen", above])
    cluster.wait_until(lambda: "listening" in spine.output(), "the switch above", SECONDS)
    route = f"{cluster.switch_address},{above},{cluster.server_address}"
    job = cluster.start_ranks(2, cluster.endless_bench(), ATP_ROUTE=route)
    cluster.wait_until(lambda: "values per fragment" in job[0].output(), "the start", SECONDS)
    spine.signal(signal.SIGKILL if "ICMP" in message else signal.SIGSTOP)
    output = said(cluster, rack if "ICMP" in message or "next node" in message else job[0], message)
    assert f"switch {cluster.switch_address} no longer" not in job[0].output() + job[1].output()
    return output


def a_rank_stops(cluster, message):
    _, _, job = start_job(cluster)
    job[2].signal(signal.SIGSTOP)
    return said(cluster, job[0], message)


def a_server_dies(cluster, message):
    server, _, job = start_job(cluster)
    server.kill()
    return said(cluster, job[0], message)


def a_server_restarts(cluster, message):
    server, _, job = start_job(cluster)
    server.kill()
    cluster.start_server()
    return said(cluster, job[0], message)


def nothing_comes_from_any_node(cluster, message):
    server, switch, job = start_job(cluster)
    server.signal(signal.SIGSTOP)
    switch.signal(signal.SIGSTOP)
    return said(cluster, job[2], message)


def a_rank_is_killed(cluster, message):
    script = """
        if [ $RANK = 2 ]; then (sleep 1; kill -9 $$) & fi
        exec "$0" bench allreduce -b 1M -e 1M -n 1000000 -w 0
    """
    command = [cluster.atp, "run", "-n", 3, "--switch", "--grace", 5, "--"]
    run = cluster.start("run", [*command, "sh", "-c", script, cluster.atp])
    run.wait(SECONDS)
    return run.output()


def a_host_s_services_start(cluster, message):
    racks = Racks(cluster.folder)
    (service,) = racks.serve("a0")
    service.terminate()
    service.wait(SECONDS)
    return service.log.read_text()


def a_job_comes_to_a_server_that_drains(cluster, message):
    server, _, _ = start_job(cluster)
    assert atp("drain", cluster.server_address).returncode == 0
    (late,) = cluster.start_ranks(1, cluster.endless_bench(), name="late", ATP_INCARNATION=2)
    late.wait(SECONDS)
    return late.output()


def a_server_of_two_jobs_drains(cluster, message):
    server, _, _ = start_job(cluster)
    second = cluster.start_rank(0, 1, cluster.endless_bench(), "second", ATP_INCARNATION=2)
    cluster.wait_until(lambda: "values per fragment" in second.output(), "the other", SECONDS)
    assert atp("drain", cluster.server_address).returncode == 0
    return said(cluster, server, message)


def a_rank_is_slow(cluster, message):
    """Away for 0.6 of every 0.7 seconds."""
    _, _, job = start_job(cluster)
    end = time.monotonic() + 2 * SECONDS
    while not re.search(pattern(message), job[0].output()) and time.monotonic() < end:
        job[1].signal(signal.SIGSTOP)
        time.sleep(0.6)
        job[1].signal(signal.SIGCONT)
        time.sleep(0.1)
    return job[0].output()


def said_in_torch(cluster, script, **env):
    """What rank 0 of four says that run this without shared memory."""
    script = f"""
import time, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
{script}
"""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    job = cluster.start_ranks(
        4,
        [sys.executable, "-c", script],
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=port,
        ATP_HOST_MEMORY=0,
        **env,
    )
    assert [process.wait(2 * SECONDS) for process in job] == [0] * 4, job[0].output()
    return job[0].output()


def a_group_finds_no_server(cluster, message):
    script = "dist.all_reduce(torch.ones(5))"
    env = {"ATP_ROUTE": "127.0.0.1:9", "ATP_ALGORITHM": "auto", "ATP_JOIN_TIMEOUT": 1}
    return said_in_torch(cluster, script, **env)


def a_rank_comes_late_to_a_barrier(cluster, message):
    cluster.start_server()
    script = """
dist.barrier()
if dist.get_rank() == 2:
    time.sleep(3)
dist.barrier()
"""
    return said_in_torch(cluster, script, ATP_ROUTE=cluster.server_address)


PRODUCED = {
    "no longer answers: going straight to server": a_switch_dies,
    "switch 10.77.3.1:5501 no longer answers, although switch": the_switch_above_dies,
    "6 ICMP errors (6 so far): 10.77.3.1:5501 is": the_switch_above_dies,
    "job 7: 10.77.3.1:5501, the next node above,": the_switch_above_dies,
    "waiting for rank 2 (10.0.1.2), which has not contributed to": a_rank_stops,
    "waiting for 1 s: rank 2 (10.0.1.2:4000) has not called barrier #3": (
        a_rank_comes_late_to_a_barrier
    ),
    "… restarted and forgot the job": a_server_restarts,
    "… does not answer": a_server_dies,
    "rank 2 (10.0.1.2) left the job before the operation ended: its process": a_rank_is_killed,
    "job 7 has failed: rank 2 (10.0.1.2) left: its process was killed": a_rank_is_killed,
    "host a0 is ready": a_host_s_services_start,
    "refused rank 0: the node takes no new jobs": a_job_comes_to_a_server_that_drains,
    "draining, 2 jobs left": a_server_of_two_jobs_drains,
    "the other ranks spent 6.3 s of": a_rank_is_slow,
    "is the network link of rank 2's host up?": nothing_comes_from_any_node,
    "atp: group of 4 ranks sums over a ring:": a_group_finds_no_server,
}


def entry_of(message):
    found = [key for key in PRODUCED if message.startswith(key)]
    assert len(found) == 1, f"{PAGE} promises `{message}`: add a scenario for it to PRODUCED"
    return PRODUCED[found[0]]


def test_every_message_of_the_page_is_produced_by_a_test():
    assert {m for m in messages() if entry_of(m)} == messages()
    for key in PRODUCED:
        assert any(m.startswith(key) for m in messages()), f"{PAGE} no longer promises `{key}`"


@pytest.mark.parametrize("message", sorted(messages()))
def test_the_programs_print_what_the_page_promises(cluster, message):
    output = entry_of(message)(cluster, message)
    assert re.search(pattern(message), output), f"{message!r} is not in:\n{output}"
