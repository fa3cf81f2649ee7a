"""A software switch and a parameter server, as programs on this machine."""

import json
import os
import pathlib
import re
import signal
import subprocess

_CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("ATP_BUILD", _CHECKOUT / "build/release"), "bin/atp")


class Node:
    """`atp switch` or `atp server`, on a free port of the loopback interface."""

    def __init__(self, role: str, stats: pathlib.Path | None = None, more: tuple = ()):
        self.role = role
        self._stats = stats
        options = (
            [*more] if stats is None else [*more, "--stats", stats, "--stats-interval", "0.05"]
        )
        self._process = subprocess.Popen(
            [PROGRAM, role, "--listen", "127.0.0.1:0", *options], stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self.endpoint = self._wait_for_endpoint()

    def _wait_for_endpoint(self) -> str:
        log = ""
        for line in self._process.stdout:
            log += line
            if found := re.search(r"(127\.0\.0\.1:\d+)", line):
                return found[1]
        raise RuntimeError(f"atp {self.role} did not start:\n{log}")

    def counters(self) -> dict[str, int]:
        """The counters, at most a twentieth of a second old."""
        lines = self._stats.read_text().rpartition("\n")[0].splitlines()
        return json.loads(lines[-1])["counters"]

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


class Network:
    """One switch below one server."""

    def __init__(self, stats: pathlib.Path | None = None, *more):
        """stats: a folder for the nodes' counters; more: further options of both nodes."""
        self._stats = stats
        self._more = more

    def _node(self, role: str) -> Node:
        return Node(role, self._stats and self._stats / f"{role}.jsonl", self._more)

    def __enter__(self) -> "Network":
        if not PROGRAM.exists():
            raise FileNotFoundError(f"{PROGRAM} is missing: run `make build`, or set ATP_BUILD")
        self.server = self._node("server")
        self.switch = self._node("switch")
        self.route = f"{self.switch.endpoint},{self.server.endpoint}"
        return self

    def __exit__(self, *_) -> None:
        self.switch.stop()
        self.server.stop()
