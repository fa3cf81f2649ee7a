"""`atp run` as a user sees it: ranks, their environment, how they end, and what is left over."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from .conftest import LIMIT_S, PROGRAM, atp, supervisor_of, wait_until


def test_ranks_get_their_environment_and_their_output_is_passed_on():
    script = (
        "echo $RANK/$LOCAL_RANK of $WORLD_SIZE/$LOCAL_WORLD_SIZE $MASTER_ADDR:$MASTER_PORT "
        "$ATP_JOB $ATP_INCARNATION $ATP_ROUTE $ATP_VALUES_PER_FRAGMENT"
    )
    result = atp("run", "-n", "3", "--values", "350", "--", "sh", "-c", script)
    assert result.returncode == 0
    lines = sorted(result.stdout.splitlines())
    assert len(lines) == 3
    for rank, line in enumerate(lines):
        address = r"127\.0\.0\.1:\d+"
        assert re.fullmatch(
            rf"{rank}/{rank} of 3/3 {address} \d+ \d+ {address},{address} 350", line
        ), line
    assert len({line.split(" ", 3)[3] for line in lines}) == 1


@pytest.mark.parametrize(
    ("options", "variables", "starts"),
    [
        pytest.param([], {}, [], id="by default"),
        pytest.param(["--switch"], {}, ["server", "switch"], id="asked for"),
        pytest.param(["--servers", "2"], {}, ["server-0", "server-1", "switch"], id="servers"),
        pytest.param(["--no-switch"], {}, ["server"], id="a server alone"),
        pytest.param([], {"ATP_HOST_MEMORY": "0"}, ["server", "switch"], id="no memory"),
        pytest.param([], {"ATP_HOST_MEMORY": "1"}, [], id="memory"),
        pytest.param([], {"ATP_HOST_MEMORY": "0", "ATP_ALGORITHM": "ring"}, [], id="a ring"),
        pytest.param(["--switch"], {"ATP_ALGORITHM": "ring"}, ["server", "switch"], id="both"),
        pytest.param([], {"ATP_SCALE": "fixed"}, ["server", "switch"], id="the fixed scale"),
    ],
)
def test_ranks_of_one_machine_get_a_switch_and_a_server_if_these_are_wanted(
    options, variables, starts
):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    script = "echo memory=$ATP_HOST_MEMORY route=$ATP_ROUTE"
    result = atp("run", "-n", "1", *options, "sh", "-c", script, env=environment | variables)
    assert sorted(re.findall(r"(\S+) on 127\.0\.0\.1", result.stderr)) == starts
    is_ring = variables.get("ATP_ALGORITHM") == "ring" and not starts
    assert ("--switch starts them" in result.stderr) == is_ring
    memory = "0" if starts else variables.get("ATP_HOST_MEMORY", "")
    assert f"memory={memory} " in result.stdout
    assert ("route=127." in result.stdout) == bool(starts)


def test_ranks_of_one_machine_sum_in_memory():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    bench = [PROGRAM, "bench", "allreduce", "-b", "1K", "-e", "4M", "-n", "3", "--digest"]
    results = [
        atp("run", "-n", "3", *options, "--", *bench, env=environment)
        for options in ([], ["--switch"])
    ]
    assert [result.returncode for result in results] == [0, 0], results[0].stderr
    assert "3 ranks, in shared memory" in results[0].stdout
    assert "3 ranks, route 127" in results[1].stdout
    digests = [re.search(r"# Digest of .* ([0-9a-f]{32})", result.stdout)[1] for result in results]
    assert digests[0] == digests[1]


@pytest.mark.parametrize(("option", "wants"), [("int16", "int16"), ("int32", "int32")])
def test_ranks_in_memory_that_want_another_wire_are_all_told_who_wants_what(option, wants):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    other = "int32" if option == "int16" else "int16"
    bench = f"exec {PROGRAM} bench allreduce -b 1K -e 1K --wire"
    script = f"[ $RANK = 1 ] && {bench} {option}; {bench} {other}"
    result = atp("run", "-n", "3", "--tag-output", "--", "sh", "-c", script, env=environment)
    assert result.returncode not in (0, None)
    said = re.findall(
        rf"^\[(\d)\] .*rank 1 uses blocks of {wants} .*, rank 0 uses blocks of {other} .*; start "
        "all ranks with the same ATP_SCALE, ATP_WIRE and ATP_EXACT",
        result.stderr,
        re.MULTILINE,
    )
    assert sorted(said) == ["0", "1", "2"], result.stderr


def test_ranks_of_one_machine_that_cannot_have_memory_get_a_switch_and_a_server():
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    bench = f"{PROGRAM} bench allreduce -b 1K -e 1K -n 3"
    result = subprocess.run(
        ["sh", "-c", f"ulimit -f 100; exec {PROGRAM} run -n 2 -- {bench}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr
    assert "2 ranks, route 127" in result.stdout
    said = (
        r"cannot sum in shared memory \(cannot reserve \d+ bytes of shared memory: File too large\)"
    )
    assert len(re.findall(said, result.stderr)) == 1


def test_without_a_switch_the_route_is_the_server():
    result = atp("run", "-n", "1", "--no-switch", "sh", "-c", "echo $ATP_ROUTE")
    assert re.fullmatch(r"127\.0\.0\.1:\d+\n", result.stdout)
    assert "switch" not in result.stderr


def test_tagged_lines_do_not_mix():
    script = 'for i in 1 2 3 4 5; do printf "a$RANK"; echo "b$i"; done; printf end >&2'
    result = atp("run", "-n", "4", "--tag-output", "--", "sh", "-c", script)
    assert sorted(result.stdout.splitlines()) == sorted(
        f"[{rank}] a{rank}b{i}" for rank in range(4) for i in range(1, 6)
    )
    for rank in range(4):
        assert f"[{rank}] end\n" in result.stderr


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        pytest.param("exit 0", 0, "", id="success"),
        pytest.param("exit 3", 3, "exited with code 3", id="a code"),
        pytest.param("kill -9 $$", 137, "was killed by signal 9 (Killed)", id="a signal"),
    ],
)
def test_exit_codes_are_passed_on(script, code, message):
    result = atp("run", "-n", "2", "sh", "-c", f"test $RANK = 0 || {{ {script}; }}")
    assert result.returncode == code
    if message:
        assert f"rank 1 {message}" in result.stderr


def test_a_command_that_is_not_found_or_may_not_run_is_named(tmp_path):
    result = atp("run", "-n", "2", "no-such-program")
    assert result.returncode == 127
    assert "cannot run 'no-such-program': command not found" in result.stderr
    result = atp("run", "--nproc-per-node", "2", "no-such.py")  # as for torchrun
    assert "command not found; name its interpreter too: python no-such.py" in result.stderr
    result = atp("run", "-n", "2", str(tmp_path))
    assert result.returncode == 126


def test_the_commands_arguments_reach_it_unchanged():
    result = atp("run", "-n", "1", "echo", "-n", "--", "--help", "--ranks")
    assert (result.returncode, result.stdout) == (0, "-- --help --ranks")


def test_when_a_rank_fails_the_others_are_stopped_after_the_grace_period(marked):
    script = "test $RANK = 1 || exec sleep 1000; exit 5"
    result = atp("run", "-n", "3", "--grace", "0.3", "sh", "-c", script, env=marked.environment())
    assert result.returncode == 5
    assert "rank 1 exited with code 5; the other ranks have 0.3 s to exit" in result.stderr
    assert "rank 0 is still running: sending SIGTERM" in result.stderr
    assert not marked.alive()


def test_a_rank_that_ignores_sigterm_is_killed(marked, tmp_path):
    deaf = f"trap '' TERM; touch {tmp_path}/deaf; sleep 1000 & wait; sleep 1000"
    fails = f"while ! test -e {tmp_path}/deaf; do sleep 0.02; done; exit 5"
    script = f"if test $RANK = 0; then {deaf}; else {fails}; fi"
    result = atp("run", "-n", "2", "--grace", "0.1", "sh", "-c", script, env=marked.environment())
    assert result.returncode == 5
    assert "rank 0 is still running: sending SIGKILL" in result.stderr
    assert not marked.alive()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_are_passed_to_the_ranks_and_their_answer_comes_back(sent, start, tmp_path):
    name = sent.name.removeprefix("SIG")
    script = f"trap 'exit 7' {name}; touch {tmp_path}/$RANK; while :; do sleep 0.05; done"
    front = start("run", "-n", "2", "sh", "-c", script)
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    front.send_signal(sent)
    front.communicate(timeout=LIMIT_S)
    assert front.returncode == 7


def test_a_rank_without_a_handler_ends_by_the_signal(start, tmp_path):
    front = start("run", "-n", "2", "sh", "-c", f"touch {tmp_path}/$RANK; exec sleep 1000")
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    front.send_signal(signal.SIGINT)
    front.communicate(timeout=LIMIT_S)
    assert front.returncode == 128 + signal.SIGINT


def test_what_ranks_leave_behind_is_ended(marked):
    # Not even a daemon in a session of its own survives the job.
    script = "setsid sleep 1000 >/dev/null 2>&1 & exit 0"
    result = atp("run", "-n", "2", "sh", "-c", script, env=marked.environment())
    assert result.returncode == 0
    assert not marked.alive()


@pytest.mark.parametrize("victim", ["front", "supervisor"])
def test_kill_9_leaves_nothing_running(victim, start, marked, tmp_path):
    script = f"setsid sleep 1000 & sleep 1000 & touch {tmp_path}/$RANK; trap '' TERM HUP; wait"
    front = start("run", "-n", "2", "--switch", "sh", "-c", script, env=marked.environment())
    wait_until(lambda: len(list(tmp_path.iterdir())) == 2)
    # Front, supervisor, server, switch, and three for each rank.
    wait_until(lambda: len(marked.alive()) == 10)
    os.kill(front.pid if victim == "front" else supervisor_of(front), signal.SIGKILL)
    wait_until(lambda: not marked.alive())
    front.communicate(timeout=LIMIT_S)
    assert front.returncode == (-9 if victim == "front" else 137)


def test_a_node_that_dies_is_named(start, tmp_path):
    script = f"touch {tmp_path}/$RANK; while ! test -e {tmp_path}/go; do sleep 0.05; done"
    front = start("run", "-n", "1", "--switch", "sh", "-c", script)
    wait_until(lambda: (tmp_path / "0").exists())
    supervisor = supervisor_of(front)
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    server = next(
        int(c) for c in children if b"\0server\0" in Path(f"/proc/{c}/cmdline").read_bytes()
    )
    os.kill(server, signal.SIGKILL)
    (tmp_path / "go").touch()
    _, err = front.communicate(timeout=LIMIT_S)
    assert front.returncode == 0
    assert "the server was killed by signal 9" in err


def test_a_job_sums_in_the_switch_and_counts(tmp_path):
    result = atp(
        "run", "-n", "2", "--values", "350", "--stats-dir", str(tmp_path / "out"), "--",
        PROGRAM, "bench", "allreduce", "-b", "64K", "-e", "64K", "-n", "3",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "OK" in result.stdout
    counters = {}
    for role in ("switch", "server"):
        last = (tmp_path / "out" / f"{role}.jsonl").read_text().splitlines()[-1]
        counters[role] = json.loads(last)["counters"]
    assert counters["server"]["fragments_completed_by_one_packet"] > 100
    assert counters["switch"]["complete_sums_sent"] > 100


NODES = (
    "--switch",
    "--no-switch",
    "--servers 2",
    "--lanes 2",
    "--colocated-servers",
    "--stats-dir x",
)


@pytest.mark.parametrize("option", NODES)
def test_a_given_route_is_not_replaced_by_nodes_that_an_option_starts(option):
    result = atp(
        *("run", "-n", "1", *option.split(), "--", "true"),
        env={**os.environ, "ATP_ROUTE": "10.0.0.9:5500"},
    )
    assert result.returncode == 2
    assert (
        f"{option.split()[0]} starts switches and servers, but ATP_ROUTE=10.0.0.9:5500 names"
        in (result.stderr)
    )


@pytest.mark.parametrize(
    ("variables", "options", "said"),
    [
        ({}, [], "10.0.0.9:5500  "),  # the ranks sum in memory, whatever the route
        ({"ATP_HOST_MEMORY": "0"}, [], "10.0.0.9:5500 0 innetwork"),
        ({"ATP_SCALE": "fixed"}, [], "10.0.0.9:5500 0 innetwork"),
        ({}, ["--values", "350"], "10.0.0.9:5500 0 innetwork"),
    ],
    ids=str,
)
def test_a_given_route_is_used_where_the_ranks_need_the_network(variables, options, said):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    script = 'echo "$ATP_ROUTE $ATP_HOST_MEMORY $ATP_ALGORITHM"'
    result = atp(
        *("run", "-n", "1", *options, "--", "sh", "-c", script),
        env=environment | {"ATP_ROUTE": "10.0.0.9:5500"} | variables,
    )
    assert result.stdout == f"{said}\n"
    assert "switch on" not in result.stderr and "server on" not in result.stderr


def test_values_that_the_ranks_do_not_get_are_named_and_so_are_misspelt_variables():
    variables = {"RANK": "7", "MASTER_PORT": "1", "ATP_JOB": "5", "ATP_ALGORITM": "ring"}
    # Which would name them itself.
    bench = (PROGRAM, "bench", "allreduce", "-b", "4K", "-e", "4K", "-n", "1")
    result = atp("run", "-n", "2", "--", *bench, env={**os.environ, **variables})
    assert result.returncode == 0, result.stderr
    assert "instead of your ATP_JOB=5, MASTER_PORT=1, RANK=7\n" in result.stderr
    assert result.stderr.count(" is unknown; did you mean ") == 1
    assert "variable ATP_ALGORITM is unknown; did you mean ATP_ALGORITHM?\n" in result.stderr


@pytest.mark.parametrize(
    "wrong",
    [
        "ATP_TIMEOUT=soon",
        "ATP_ALGORITHM=rings",
        "ATP_PORT_RANGE=9000-8000",
        "ATP_ROUTE=127.0.0.1:5501,127.0.0.1:5501",
        "ATP_KEY_FILE=no-such-file",
    ],
)
def test_a_wrong_variable_is_refused_before_anything_starts(wrong):
    name, value = wrong.split("=")
    result = atp("run", "-n", "2", "--", "echo", "started", env={**os.environ, name: value})
    assert result.returncode == 2, result.stderr
    assert not result.stdout and f"{name}" in result.stderr


def test_a_run_without_a_number_of_ranks_names_the_option():
    result = atp("run", "--", "python", "train.py")
    assert result.returncode == 2
    assert "the number of ranks is missing: -n N (or --ranks N)" in result.stderr
