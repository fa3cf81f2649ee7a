"""The program `atp` as a user meets it: help, exit codes, messages, and what it leaves behind."""

import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from .conftest import BUILD

PROGRAM = BUILD / "bin" / "atp"
PLAN_COMMANDS = ("best", "explain", "sweep", "matrix", "aggregation", "import")
# They become Python's atp.tensor_parallel, which has tests of its own.
PYTHON_COMMANDS = [["plan", "calibrate"], ["plan", "compare"]]
COMMANDS = [[], ["run"], ["switch"], ["server"], ["bench"], ["bench", "allreduce"], ["plan"]]
COMMANDS += [["plan", name] for name in PLAN_COMMANDS] + [["sim"], ["cluster"], ["status"]]
COMMANDS += [["version"]]
LIMIT_S = 60


def atp(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=LIMIT_S, **options
    )


def wait_until(condition):
    """Returns what condition() returns, once that is true."""
    end = time.monotonic() + LIMIT_S
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {LIMIT_S} s: {condition}")


@pytest.fixture
def start(tmp_path):
    """Starts programs that are ended after the test."""
    started = []

    def start_one(*arguments, **options):
        process = subprocess.Popen(
            [PROGRAM, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )
        started.append(process)
        return process

    yield start_one
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


@pytest.fixture
def listening(start, tmp_path):
    """Starts a switch or server on a free port and returns the process and its address."""

    def start_node(role, *arguments):
        port_file = tmp_path / f"{role}-{uuid.uuid4()}"
        node = start(role, "--listen", "127.0.0.1:0", "--port-file", str(port_file), *arguments)
        text = wait_until(lambda: port_file.exists() and port_file.read_text())
        return node, text.strip()

    return start_node


class Marked:
    """The processes that inherited a marker in their environment."""

    def __init__(self):
        self.marker = f"ATP_TEST_MARKER={uuid.uuid4()}"

    def environment(self):
        name, value = self.marker.split("=")
        return {**os.environ, name: value}

    def alive(self):
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdigit():
                try:
                    dead = re.search(r"\) [ZX] ", (folder / "stat").read_text())
                    if not dead and self.marker.encode() in (folder / "environ").read_bytes():
                        found.append(int(folder.name))
                except OSError:
                    pass  # it has just ended
        return found


@pytest.fixture
def marked():
    marked = Marked()
    yield marked
    for pid in marked.alive():
        os.kill(pid, signal.SIGKILL)


def supervisor_of(front):
    children = Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


# --- Usage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: " ".join(c) or "atp")
def test_help_has_examples(command):
    result = atp(*command, "--help")
    assert result.returncode == 0
    assert re.search(r"^Examples[:,]", result.stdout, re.MULTILINE)
    assert result.stderr == ""


def commands_listed(group):
    """The commands that the help of a group of commands lists."""
    block = re.search(r"^Subcommands:\n(.*?)\n\n", atp(*group, "--help").stdout, re.DOTALL | re.M)
    return re.findall(r"^  (\w\S*)", block[1], re.MULTILINE)


@pytest.mark.parametrize("group", [[], ["bench"], ["plan"]], ids=lambda c: " ".join(c) or "atp")
def test_no_command_is_missing_from_these_tests(group):
    commands = COMMANDS + PYTHON_COMMANDS
    known = [command[-1] for command in commands if command and command[:-1] == group]
    assert sorted(commands_listed(group)) == sorted(known)


@pytest.mark.parametrize("words", [["version"], ["--version"]])
def test_version(words):
    result = atp(*words)
    assert result.returncode == 0
    assert re.fullmatch(r"atp \d+\.\d+\.\d+ \(wire version 2\)\n", result.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        pytest.param([], "subcommand is required", id="no command"),
        pytest.param(
            ["frob"], "'frob' is no command of 'atp': write run, switch,", id="unknown command"
        ),
        pytest.param(["sever"], "did you mean server?", id="misspelt command"),
        pytest.param(
            ["bench", "frob"],
            "'frob' is no command of 'atp bench': write allreduce (see 'atp bench --help')",
            id="unknown command of a group",
        ),
        pytest.param(["bench"], "(see 'atp bench --help')", id="no command of a group"),
        pytest.param(
            ["--frob"],
            "'--frob' is no option of 'atp', and a command comes first",
            id="only an option",
        ),
        pytest.param(
            ["server", "--listen", "[fe80::1]:5500"],
            "--listen 'fe80::1' is a link-local address",
            id="link-local address",
        ),
        pytest.param(
            ["server", "--frob", "8"],
            "atp server: unknown argument: --frob 8 (see",
            id="unknown option",
        ),
        pytest.param(
            ["run", "--frob", "3", "true"],
            "atp run: unknown argument: --frob (see",
            id="unknown option before a command",
        ),
        pytest.param(
            ["server", "--lease", "2"],
            "--lease: found 2, expected a number from 3 to 3600",
            id="a lease that ends jobs",
        ),
        pytest.param(["run", "true"], "--ranks is required", id="run without ranks"),
        pytest.param(["run", "-n", "2"], "command is required", id="run without a command"),
        pytest.param(["run", "-n", "0", "true"], "1 to 1024", id="no ranks"),
        pytest.param(["run", "-n", "2", "--values", "2227", "true"], "2226", id="K too large"),
        pytest.param(["switch", "--log-level", "loud"], "loud", id="unknown log level"),
        pytest.param(["server", "--listen", "5500"], "expected HOST:PORT", id="no address"),
        pytest.param(["server", "--window", "1000"], "use 512 or 1024", id="window no power of 2"),
        pytest.param(["switch", "--upstream", "10/8"], "expected ADDRESS/BITS", id="no network"),
        pytest.param(
            ["run", "-n", "2", "--switch", "--no-switch", "true"], "excludes", id="with and without"
        ),
        pytest.param(
            ["run", "-n", "2", "--aggregators", "8", "--no-switch", "true"],
            "excludes",
            id="aggregators of no switch",
        ),
        pytest.param(
            ["bench", "allreduce", "-e", "900G", "-b", "4K"],
            "-e 966367641600 is more than the memory that a process gets here",
            id="more than the memory",
        ),
        pytest.param(["sim", "--count", "0"], "not in range 1 to 10000", id="no seeds"),
        *(
            pytest.param(
                [*command, option, "nan"], f"{option}: found nan, expected a", id=f"nan {option}"
            )
            for command, option in [
                (["switch"], "--uplink-rate"),
                (["server"], "--stats-interval"),
                (["run"], "--stats-interval"),
                (["run"], "--grace"),
                (["bench", "allreduce"], "--bandwidth"),
                (["plan", "best"], "--device-memory"),
            ]
        ),
    ],
)
def test_wrong_usage_ends_with_code_2_and_one_line(arguments, message):
    result = atp(*arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


# --- Switch and server ----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["switch", "server"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_nodes_say_where_they_listen_count_and_end_in_peace(role, end, listening, tmp_path):
    stats = tmp_path / "stats"
    node, address = listening(role, "--stats", str(stats), "--stats-interval", "0.05")
    host, port = address.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"not ours", (host, int(port)))
    wait_until(lambda: stats.read_text().count("\n") >= 2)
    node.send_signal(end)
    out, _ = node.communicate(timeout=LIMIT_S)
    assert node.returncode == 0
    assert out == f"atp {role} listening on {address}\n"
    last = json.loads(stats.read_text().splitlines()[-1])
    assert last["role"] == role
    assert abs(last["time_s"] - time.time()) < LIMIT_S
    assert last["counters"]["udp_datagrams_in"] == 1
    assert last["counters"]["drop_too_short"] == 1


def test_a_taken_port_is_named_with_a_way_out(listening):
    _, address = listening("server")
    for role in ("server", "switch"):
        result = atp(role, "--listen", address)
        assert result.returncode == 1
        assert f"cannot listen on {address}: address already in use" in result.stderr
        assert "choose another port (--listen, or `port:` in the cluster file)" in result.stderr


def test_a_switch_that_others_reach_must_say_whom_it_may_send_to():
    result = atp("switch", "--listen", "0.0.0.0:0")
    assert result.returncode == 2
    assert "--upstream is required when listening on 0.0.0.0:0" in result.stderr


def test_aggregators_that_the_memory_does_not_hold_are_refused():
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    node = ("switch", "--listen", "127.0.0.1:0", "--values", "2226")
    result = atp(*node, "--aggregators", "16777216", preexec_fn=little_memory)
    assert result.returncode == 1
    asked = r"--aggregators 16777216 of 2226 values each need 14\d\.\d GiB of memory"
    advice = r"but there is \d\.\d GiB: use at most --aggregators 131072, or smaller fragments"
    assert re.search(f"{asked}, {advice}", result.stderr), result.stderr


def test_a_stats_file_that_cannot_be_written_is_named():
    result = atp("server", "--listen", "127.0.0.1:0", "--stats", "/no/such/folder/file")
    assert result.returncode == 1
    assert "/no/such/folder/file" in result.stderr


def test_a_node_dies_with_its_parent_if_told_to(marked, tmp_path):
    port_file = tmp_path / "port"
    script = f"'{PROGRAM}' server --listen 127.0.0.1:0 --die-with-parent --port-file {port_file} &"
    shell = subprocess.Popen(
        ["sh", "-c", script + " cat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=marked.environment(),
    )
    wait_until(lambda: port_file.exists() and port_file.read_text())
    assert len(marked.alive()) >= 2
    shell.kill()
    shell.wait()
    shell.stdin.close()
    wait_until(lambda: not marked.alive())


# --- Run ------------------------------------------------------------------------------------------


def test_ranks_get_their_environment_and_their_output_passes():
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
        pytest.param([], {}, [], id="nothing said"),
        pytest.param(["--switch"], {}, ["server", "switch"], id="asked for"),
        pytest.param(["--servers", "2"], {}, ["server-0", "server-1", "switch"], id="servers"),
        pytest.param(["--no-switch"], {}, ["server"], id="a server alone"),
        pytest.param([], {"ATP_HOST_MEMORY": "0"}, ["server", "switch"], id="no memory"),
        pytest.param([], {"ATP_HOST_MEMORY": "1"}, [], id="memory"),
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
        rf"^\[(\d)\] .*rank 1 wants blocks of {wants} .*, rank 0 wants blocks of {other} .*; start "
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
    said = r"cannot sum in shared memory \(cannot have \d+ bytes of shared memory: File too large\)"
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
def test_exit_codes_pass(script, code, message):
    result = atp("run", "-n", "2", "sh", "-c", f"test $RANK = 0 || {{ {script}; }}")
    assert result.returncode == code
    if message:
        assert f"rank 1 {message}" in result.stderr


def test_a_command_that_is_not_found_or_may_not_run_is_named(tmp_path):
    result = atp("run", "-n", "2", "no-such-program")
    assert result.returncode == 127
    assert "cannot run 'no-such-program': command not found" in result.stderr
    result = atp("run", "-n", "2", str(tmp_path))
    assert result.returncode == 126


def test_arguments_of_the_command_stay_its_own():
    result = atp("run", "-n", "1", "echo", "-n", "--", "--help", "--ranks")
    assert (result.returncode, result.stdout) == (0, "-- --help --ranks")


def test_when_a_rank_fails_the_others_have_the_grace_and_are_stopped_then(marked):
    script = "test $RANK = 1 || exec sleep 1000; exit 5"
    result = atp("run", "-n", "3", "--grace", "0.3", "sh", "-c", script, env=marked.environment())
    assert result.returncode == 5
    assert "rank 1 exited with code 5; the other ranks have 0.3 s to end" in result.stderr
    assert "rank 0 still runs: SIGTERM" in result.stderr
    assert not marked.alive()


def test_a_rank_that_ignores_sigterm_is_killed(marked, tmp_path):
    deaf = f"trap '' TERM; touch {tmp_path}/deaf; sleep 1000 & wait; sleep 1000"
    fails = f"while ! test -e {tmp_path}/deaf; do sleep 0.02; done; exit 5"
    script = f"if test $RANK = 0; then {deaf}; else {fails}; fi"
    result = atp("run", "-n", "2", "--grace", "0.1", "sh", "-c", script, env=marked.environment())
    assert result.returncode == 5
    assert "rank 0 still runs: SIGKILL" in result.stderr
    assert not marked.alive()


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_signals_pass_to_the_ranks_and_their_answer_comes_back(sent, start, tmp_path):
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
    # Not even a daemon of its own session survives the job.
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
