"""Ctrl-C ends a demo and what it has started, with one line."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("demo", ["demo", "demo_tp"])
def test_ctrl_c_ends_a_demo_without_a_stack(tmp_path, demo):
    """Of `atp`, which the demo waits for, only a stub runs."""
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
    end = time.monotonic() + 60
    while not started.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    assert started.exists(), process.communicate()
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "\ndemo: stopped\n")
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
