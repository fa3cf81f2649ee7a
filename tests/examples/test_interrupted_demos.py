"""Ctrl-C ends a demo and what it has started, with one line; and so does `kill -9`, without one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def wait_until(condition):
    end = time.monotonic() + 60
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


def is_there(group):
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def start(tmp_path):
    """Starts a demo in a process group of its own; of `atp`, only a stub runs."""

    def start(demo):
        started = tmp_path / "started"
        (tmp_path / "bin").mkdir()
        program = tmp_path / "bin" / "atp"
        program.write_text(f"#!/bin/sh\ntouch {started}\nexec sleep 100\n")
        program.chmod(0o755)
        process = subprocess.Popen(
            [sys.executable, REPOSITORY / "examples" / demo / "demo.py", "--out", tmp_path / "out"],
            env={**os.environ, "ATP_BUILD": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        wait_until(lambda: started.exists() or process.poll() is not None)
        assert started.exists(), process.communicate()
        return process

    return start


@pytest.mark.parametrize("demo", ["demo", "demo_tp"])
def test_ctrl_c_ends_a_demo_without_a_stack(start, demo):
    process = start(demo)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "\ndemo: stopped\n")
    assert not is_there(process.pid)


def test_a_killed_demo_leaves_nothing_behind(start):
    process = start("demo")
    process.kill()
    process.wait()
    assert wait_until(lambda: not is_there(process.pid))
