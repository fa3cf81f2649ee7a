"""Real processes on loopback: servers, switches and ranks that a test may kill, freeze and restart.

The programs come from build/release, or from the build folder that ATP_BUILD names.
"""

import os
import random
import re
import signal
import subprocess
import time
import uuid
from pathlib import Path

import pytest

from lab.ports import free_ports

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
PROGRAM = BUILD / "bin" / "atp"
LIMIT_S = 60


def wait_until(condition, what="what this test needs", seconds=LIMIT_S):
    """The result of condition(), once it is true."""
    end = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < end, f"waited {seconds} s in vain for {what}"
        time.sleep(0.02)
    return result


class Process:
    """A program whose output goes to a file, so that it never blocks and can be read any time.

    A program that is started again under the same name appends to the same file; output() is what
    this process has written.
    """

    def __init__(self, command, log, env=None):
        self.log = log
        with open(log, "ab") as out:
            self.begin = out.tell()
            self.popen = subprocess.Popen(
                [str(word) for word in command],
                stdout=out,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(env or {})},
            )

    def output(self):
        return self.log.read_bytes()[self.begin :].decode(errors="replace")

    def running(self):
        return self.popen.poll() is None

    def wait(self, seconds):
        """The exit code; a program that takes longer fails the test, with its output."""
        try:
            return self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(
                f"{self.popen.args} still runs after {seconds} s; its output:\n{self.output()}"
            )

    def signal(self, number):
        self.popen.send_signal(number)

    def kill(self):
        if self.running():
            self.popen.kill()  # ends a frozen process as well
        self.popen.wait()


class Cluster:
    """One server and one switch on loopback, and ranks that join one job through them."""

    wait_until = staticmethod(wait_until)

    def __init__(self, folder):
        self.folder = folder
        self.processes = []
        self.server_port, self.switch_port = free_ports(2)
        self.job = random.randrange(1, 2**32)
        self.atp = BUILD / "bin" / "atp"
        assert self.atp.exists(), f"{self.atp} does not exist: run `make build` first"

    @property
    def server_address(self):
        return f"127.0.0.1:{self.server_port}"

    @property
    def switch_address(self):
        return f"127.0.0.1:{self.switch_port}"

    def start(self, name, command, env=None):
        process = Process(command, self.folder / f"{name}.log", env)
        self.processes.append(process)
        return process

    def start_server(self, *options):
        command = [self.atp, "server", "--listen", self.server_address, *options]
        return self._listening("server", command, self.server_port)

    def start_switch(self, *options):
        command = [self.atp, "switch", "--listen", self.switch_address, *options]
        return self._listening("switch", command, self.switch_port)

    def _listening(self, name, command, port):
        process = self.start(name, command)
        wait_until(
            lambda: "listening on" in process.output() or not process.running(),
            f"{name} on port {port}",
        )
        assert process.running(), f"{name} ended at once:\n{process.output()}"
        return process

    def start_rank(self, rank, world_size, command, name=None, **env):
        """Keyword arguments are environment variables, in addition to what `atp run` would set."""
        variables = {
            "RANK": rank,
            "WORLD_SIZE": world_size,
            "LOCAL_RANK": rank,
            "ATP_JOB": self.job,
            "ATP_INCARNATION": 1,
            "ATP_ROUTE": f"{self.switch_address},{self.server_address}",
            "ATP_VALUES_PER_FRAGMENT": 350,
            "ATP_ALGORITHM": "innetwork",
            **env,
        }
        variables = {key: str(value) for key, value in variables.items()}
        return self.start(name or f"rank{rank}", command, variables)

    def start_ranks(self, world_size, command, **env):
        return [self.start_rank(rank, world_size, command, **env) for rank in range(world_size)]

    def bench(self, *options):
        return [self.atp, "bench", "allreduce", *options]

    def endless_bench(self):
        """A benchmark that outlives every test; its header line says that all have joined."""
        return self.bench("-b", "1M", "-e", "1M", "-n", "1000000", "-w", "0")

    def example(self, name):
        return [BUILD / "bin" / "examples" / name]

    def kill_all(self):
        for process in self.processes:
            process.kill()


@pytest.fixture
def cluster(tmp_path):
    cluster = Cluster(tmp_path)
    yield cluster
    cluster.kill_all()


def atp(*arguments, **options):
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, timeout=LIMIT_S, **options
    )


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


def supervisor_of(front):
    children = Path(f"/proc/{front.pid}/task/{front.pid}/children").read_text().split()
    assert len(children) == 1
    return int(children[0])


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
def marked():
    marked = Marked()
    yield marked
    for pid in marked.alive():
        os.kill(pid, signal.SIGKILL)
