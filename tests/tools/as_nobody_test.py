"""tools/as_nobody: what a command finds there, and that nothing of it is left behind."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TOOL = REPOSITORY / "tools" / "as_nobody"
LOOK = """
import json, os, socket, tempfile

def may_write(folder):
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
    buffers = []
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        one.setsockopt(socket.SOL_SOCKET, option, 4 << 20)
        buffers.append(one.getsockopt(socket.SOL_SOCKET, option))
print(json.dumps({
    "ids": [*os.getresuid(), *os.getresgid()],
    "groups": os.getgroups(),
    "home": os.path.exists(os.environ["HOME"]),
    "checkout": may_write("."),
    "temporary": may_write(os.environ["TMPDIR"]),
    "folder": os.path.dirname(os.environ["TMPDIR"]),
    "buffers": buffers,
    "secret": "SECRET" in os.environ,
    "here": os.getcwd(),
}))
"""


def as_nobody(*words, **variables):
    return subprocess.run(
        [TOOL, *words], capture_output=True, text=True, env={**os.environ, **variables}
    )


# Only root can become somebody else; for anybody else there is only the refusal to test.
if os.geteuid() == 0:

    def test_a_command_finds_what_a_stranger_to_the_machine_would():
        done = as_nobody(sys.executable, "-c", LOOK, SECRET="1")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        folder = Path(found.pop("folder"))
        most = 2 * 212_992  # the kernel doubles what is asked for
        assert all(buffer <= most for buffer in found.pop("buffers"))
        assert found == {
            "ids": [65534] * 6,
            "groups": [],
            "home": False,
            "checkout": False,
            "temporary": True,
            "secret": False,
            "here": str(REPOSITORY),
        }
        assert not folder.exists()

    @pytest.mark.parametrize("status", [0, 3])
    def test_the_exit_status_is_the_commands(status):
        assert as_nobody("sh", "-c", f"exit {status}").returncode == status

else:

    def test_whoever_is_not_root_is_refused():
        done = as_nobody("true")
        assert done.returncode == 1
        assert done.stderr == (
            "as_nobody: changing the user needs root: run this as root, or with sudo\n"
        )


def test_no_command_is_an_error():
    done = as_nobody()
    assert done.returncode == 1
    assert "no command; usage:" in done.stderr
