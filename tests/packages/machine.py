"""Runs programs, on this machine and in folders that debootstrap has filled."""

import contextlib
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGES = ROOT / "build" / "packages"
VERSION = re.search(r'__version__ = "(.+)"', (ROOT / "python/atp/__init__.py").read_text())[1]


def run(*command, **options):
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def the(pattern):
    (found,) = PACKAGES.glob(pattern)
    return found


@contextlib.contextmanager
def bare_debian(folder, packages):
    """A Debian 12 with its essential packages and these."""
    if os.geteuid() != 0:
        pytest.fail("a bare Debian needs root: sudo make test-packages")
    debs = os.environ.get("ATP_DEBS", "/var/cache/apt/archives")
    options = ["--variant=minbase", f"--include={packages}", f"--cache-dir={debs}"]
    run("debootstrap", *options, "bookworm", folder, env={**os.environ, "DPKG_FORCE": "unsafe-io"})
    # What an installer would write; offline_machine gives the name.
    (folder / "etc/hosts").write_text("127.0.0.1 localhost\n127.0.1.1 machine\n")
    yield folder
    mounted = Path("/proc/self/mountinfo").read_text()
    assert f" {folder}" not in mounted  # or its removal would remove what is mounted
    shutil.rmtree(folder)


def offline(root, *command):
    """What a command prints in such a folder, as on a machine without a network."""
    cache = {"CCACHE": run("ccache", "--get-config", "cache_dir").strip()}
    return run(HERE / "offline_machine", root, *command, env={**os.environ, **cache})
