"""The program `atp` as a user sees it: help, exit codes, messages, switch and server."""

import json
import re
import resource
import signal
import socket
import subprocess
import time
import uuid
from datetime import datetime

import pytest

from .conftest import LIMIT_S, PROGRAM, atp, wait_until

PLAN_COMMANDS = ("best", "explain", "sweep", "matrix", "aggregation")
# They become Python's atp.tensor_parallel and atp.topology, which have tests of their own.
PYTHON_COMMANDS = [["plan", "calibrate"], ["plan", "compare"], ["plan", "import"]]
COMMANDS = [[], ["run"], ["switch"], ["server"], ["bench"], ["bench", "allreduce"], ["plan"]]
COMMANDS += [["plan", name] for name in PLAN_COMMANDS] + [["sim"], ["cluster"], ["status"]]
COMMANDS += [
    ["drain"],
    ["key"],
    ["view"],
    ["report"],
    ["doctor"],
    ["version"],
    ["help"],
    ["completion"],
]


@pytest.fixture
def listening(start, tmp_path):
    """Starts a switch or server on a free port and returns the process and its address."""

    def start_node(role, *arguments):
        port_file = tmp_path / f"{role}-{uuid.uuid4()}"
        node = start(role, "--listen", "127.0.0.1:0", "--port-file", str(port_file), *arguments)
        text = wait_until(lambda: port_file.exists() and port_file.read_text())
        return node, text.strip()

    return start_node


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
        pytest.param([], "'atp' needs a command: use run, switch,", id="no command"),
        pytest.param(
            ["frob"], "'frob' is not a command of 'atp': use run, switch,", id="unknown command"
        ),
        pytest.param(["sever"], "did you mean server?", id="misspelt command"),
        pytest.param(
            ["bench", "frob"],
            "'frob' is not a command of 'atp bench': use allreduce (see 'atp bench --help')",
            id="unknown command of a group",
        ),
        pytest.param(
            ["bench"],
            "'atp bench' needs a command: use allreduce (see 'atp bench --help')",
            id="no command of a group",
        ),
        pytest.param(["plan"], "'atp plan' needs a command: use best,", id="no command of plan"),
        pytest.param(
            ["--frob"],
            "'--frob' is not an option of 'atp', and a command comes first",
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
        pytest.param(["run", "true"], "-n N (or --ranks N)", id="run without ranks"),
        pytest.param(
            ["run", "--nproc_per_node", "4"],
            "did you mean --nproc-per-node?",
            id="torchrun's older spelling",
        ),
        *(
            pytest.param(["run", "-n", "2", *words, "true"], said, id=f"torchrun's {words[0]}")
            for words, said in {
                ("--nnodes", "2"): "there is no --nnodes: a cluster file lists the hosts",
                ("--node_rank=1",): "or by --host NAME",
                ("--node-rank", "1"): "or by --host NAME",
                ("--master-addr", "h"): "first host of the cluster file",
                ("--master-port", "1"): "--master-port requires --cluster",
                ("--rdzv-endpoint", "h:1"): "--job and --incarnation",
                ("--rdzv_backend=c10d",): "--job and --incarnation",
                ("--standalone",): "all ranks are on this machine",
                ("--max-restarts=3",): "is not started again",
                ("-m", "train"): "-- python -m MODULE",
                ("--tee", "3"): "--tag-output",
            }.items()
        ),
        pytest.param(["run", "-n", "2"], "no program to run", id="run without a program"),
        pytest.param(["run", "-n", "0", "true"], "1 to 1024", id="no ranks"),
        pytest.param(["run", "-n", "2", "--values", "2227", "true"], "2226", id="K too large"),
        pytest.param(["switch", "--log-level", "loud"], "loud", id="unknown log level"),
        pytest.param(["switch", "--log-format", "xml"], "xml", id="unknown log format"),
        pytest.param(["server", "--listen", "5500"], "expected HOST:PORT", id="no address"),
        pytest.param(["server", "--window", "1000"], "use 512 or 1024", id="not a power of 2"),
        pytest.param(["switch", "--upstream", "10/8"], "expected ADDRESS/BITS", id="no network"),
        pytest.param(
            ["run", "-n", "2", "--switch", "--no-switch", "true"],
            "cannot be combined with",
            id="with and without",
        ),
        pytest.param(
            ["run", "-n", "2", "--aggregators", "8", "--no-switch", "true"],
            "cannot be combined with",
            id="aggregators without a switch",
        ),
        pytest.param(
            ["bench", "allreduce", "-e", "900G", "-b", "4K"],
            "-e 966367641600 is more than this process can allocate",
            id="more than the memory",
        ),
        pytest.param(
            ["sim", "--count", "0"],
            "--count: found 0, expected a whole number from 1 to 10000",
            id="no seeds",
        ),
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
def test_nodes_say_where_they_listen_count_and_end_cleanly(role, end, listening, tmp_path):
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


def test_log_lines_have_date_and_offset():
    lines = atp("run", "-n", "1", "--", "true").stderr.splitlines()
    time_of = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d"
    assert lines and all(re.match(time_of + " atp run info: ", line) for line in lines), lines


def test_a_log_in_json_has_an_object_per_message_whatever_it_says(tmp_path):
    name = 'a "quoted"\n\\name\udcff'
    command = ("run", "-n", "2", "--switch", "--log-format", "json", "--", tmp_path / name)
    messages = [json.loads(line) for line in atp(*command).stderr.splitlines()]
    assert {"switch", "server"} <= {message["message"].split()[0] for message in messages}
    always = {"time", "level", "command", "message"}
    assert all(always <= set(m) <= always | {"job", "incarnation", "ranks"} for m in messages)
    (error,) = [m for m in messages if m["level"] == "error"]
    assert error["command"] == "atp run" and 'a "quoted"\n\\name' in error["message"]
    datetime.fromisoformat(error["time"])


def test_a_taken_port_is_named_with_a_way_out(listening):
    _, address = listening("server")
    for role in ("server", "switch"):
        result = atp(role, "--listen", address)
        assert result.returncode == 1
        assert f"cannot listen on {address}: address already in use" in result.stderr
        assert "choose another port (--listen, or `port:` in the cluster file)" in result.stderr
    for metrics, why in {
        address: "address already in use; choose another port",
        "203.0.113.1:5590": "no interface of this machine has that address",
    }.items():
        result = atp("server", "--listen", "127.0.0.1:0", "--metrics", metrics)
        assert result.returncode == 1
        assert f"--metrics {metrics}: cannot listen on TCP {metrics}: {why}\n" in result.stderr


def test_a_switch_that_others_reach_must_say_whom_it_may_send_to():
    result = atp("switch", "--listen", "0.0.0.0:0")
    assert result.returncode == 2
    assert "--upstream is required when listening on 0.0.0.0:0" in result.stderr


def test_aggregators_that_do_not_fit_into_memory_are_refused():
    def little_memory():
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    node = ("switch", "--listen", "127.0.0.1:0", "--values", "2226")
    result = atp(*node, "--aggregators", "16777216", preexec_fn=little_memory)
    assert result.returncode == 1
    asked = r"--aggregators 16777216 with 2226 values each need 14\d\.\d GiB of memory"
    advice = r"but \d\.\d GiB is available: use at most --aggregators 131072, or smaller fragments"
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
