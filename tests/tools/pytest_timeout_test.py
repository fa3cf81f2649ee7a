"""A test that hangs ends, as a failure with its name and the place where it hung."""

import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
HANGING = """
import threading

def test_that_waits_for_nobody():
    threading.Event().wait()
"""


def test_a_hang_is_a_failure_with_a_name_and_a_stack(tmp_path):
    (tmp_path / "test_hanging.py").write_text(HANGING)
    pytest = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--rootdir", tmp_path]
    settings = ["-c", REPOSITORY / "pyproject.toml", "-o", "timeout=1"]
    result = subprocess.run(
        [*pytest, *settings, tmp_path], capture_output=True, text=True, timeout=100
    )
    assert result.returncode == 1, result.stdout + result.stderr
    assert "::test_that_waits_for_nobody" in result.stdout
    assert "Failed: Timeout (>1.0s)" in result.stdout
    assert "threading.Event().wait()" in result.stdout


def test_every_test_has_a_time_out(pytestconfig):
    assert 0 < float(pytestconfig.getini("timeout")) <= 900
    assert pytestconfig.getini("timeout_method") == "signal"
