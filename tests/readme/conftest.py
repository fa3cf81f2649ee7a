"""A folder in which a page's commands run as in its reader's checkout."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lab.requirements import privileged
from tests.pages import REPOSITORY

BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
LIMIT_S = 400
TRAIN = """
import os, time, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
dist.all_reduce(torch.ones(1000))
while "ATP_METRICS" in os.environ and not os.path.exists("curl-has-answered"):
    time.sleep(0.05)
dist.destroy_process_group()
"""
# Waits until something listens; a bare machine has no curl.
CURL = f"""#!{sys.executable}
import pathlib, sys, time, urllib.request
for attempt in range(1000):
    try:
        print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())
        pathlib.Path("curl-has-answered").touch()
        break
    except OSError:
        time.sleep(0.1)
else:
    sys.exit("no answer from " + sys.argv[1])
"""


@pytest.fixture
def sandbox(tmp_path):
    """The checkout as a page's commands see it; what they write stays here."""
    for entry in REPOSITORY.iterdir():
        if entry.name not in ("build", "out", ".venv", ".git"):
            (tmp_path / entry.name).symlink_to(entry)
    (tmp_path / "build").mkdir()
    (tmp_path / "build" / "release").symlink_to(BUILD)
    (tmp_path / ".venv").symlink_to(sys.prefix)
    (tmp_path / "cluster.yaml").write_text(
        (REPOSITORY / "examples/clusters/two-racks-and-servers.yaml").read_text()
    )
    (tmp_path / "config.json").write_text(
        (REPOSITORY / "examples/models/gpt2-medium.json").read_text()
    )
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "curl").write_text(CURL)
    (tmp_path / "bin" / "curl").chmod(0o755)
    return tmp_path


def environment(folder):
    kept = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    own = [folder / "bin", BUILD / "bin", Path(sys.executable).parent, os.environ["PATH"]]
    return {
        **kept,
        "PATH": ":".join(map(str, own)),
        "PYTHONPATH": f"{REPOSITORY / 'python'}:{os.environ.get('PYTHONPATH', '')}",
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }


def type_in(folder, text, addresses=(), ends_with=0):
    """The commands' output; the last one must end with this exit code, the others with 0.

    With addresses they run in a network of their own, which has only these.
    """
    script = f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{text}"
    words = []
    if addresses:
        made = "".join(f"ip address add {one}/24 dev lo\n" for one in addresses)
        script = f"ip link set lo up\n{made}{script}"
        words = privileged("unshare", "--net")
    process = subprocess.Popen(
        [*words, "bash", "-e", "-o", "pipefail", "-c", script],
        cwd=folder,
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        said, complaints = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, complaints = process.communicate()
        pytest.fail(f"still runs after {LIMIT_S} s:\n{text}\nIt said:\n{said}{complaints}")
    assert process.returncode == ends_with, said + complaints
    return said
