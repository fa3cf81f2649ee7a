"""tools/fresh when it must not go on, and when it is killed; .ci/run runs all of it.

debootstrap is a stub, so no machine is ever complete: the question is what stays behind.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FRESH = ROOT / "tools" / "fresh"
# It must be root, which anybody can be in their own user namespace.
AS_ROOT = [] if os.geteuid() == 0 else [shutil.which("unshare"), "--user", "--map-root-user"]
# It says where it is, keeps a mount and a process of its own busy, and waits to be killed.
WAITING = """#!/bin/sh
for root; do :; done
mkdir -p "$root/inner" && mount -t tmpfs tmpfs "$root/inner" && touch "$root/inner/file"
sleep 7777 &
echo "$root" >"$TOLD" && wait
"""


class Stubs:
    def __init__(self, folder):
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.machines = folder / "machines"
        self.machines.mkdir()
        self.told = folder / "told"
        self.add("debootstrap", "exit 1")

    def add(self, name, script):
        (self.bin / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.bin / name).chmod(0o755)

    def start(self, *arguments, path=None):
        return subprocess.Popen(
            [*AS_ROOT, FRESH, "--folder", self.machines, "--no-cache", *arguments],
            env={"PATH": path or f"{self.bin}:{os.environ['PATH']}", "TOLD": str(self.told)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments, **options):
        process = self.start(*arguments, **options)
        said, complained = process.communicate(timeout=60)
        return process.returncode, said, complained

    def in_namespace(self):
        """The processes of machines that are being created."""
        found = subprocess.run(["pgrep", "-f", str(self.machines)], capture_output=True, text=True)
        return found.stdout.split()


@pytest.fixture
def stubs(tmp_path):
    return Stubs(tmp_path)


def eventually(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.05)
    return condition()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--as", "bob"], "--as: found 'bob', expected root or sudo"),
        (["--as"], "--as needs a value; see tools/fresh --help"),
        (["--cache"], "--cache needs a value; see tools/fresh --help"),
        (["--except"], "--except needs a value; see tools/fresh --help"),
        (
            ["--folder", "/no/such/folder"],
            "/no/such/folder is not a folder; choose one with --folder",
        ),
        (["--nonsense"], "unknown option --nonsense; see tools/fresh --help"),
        (["--except", "make nothing"], "--except: the README has no command 'make nothing'"),
    ],
)
def test_wrong_arguments_are_named(stubs, arguments, complaint):
    code, _, complained = stubs.run(*arguments)
    assert code == 2
    assert complained == f"fresh: {complaint}\n"


def test_its_help_is_its_first_comment(stubs):
    code, said, _ = stubs.run("--help")
    assert code == 0
    assert said.startswith("Runs the README's commands verbatim on bare machines")


def test_the_list_is_every_command_of_the_readme(stubs):
    commands = stubs.run("--list")[1].split("\0")
    assert commands[:2] == ["apt-get install git make", "make demo"]
    assert "make test" in commands


def test_whoever_is_not_root_is_told_how_to_become_it(stubs):
    stubs.add("id", "echo 1000")
    code, _, complained = stubs.run()
    assert (code, complained) == (2, "fresh: making a machine needs root; run: sudo tools/fresh\n")


def test_a_missing_tool_is_named_with_its_package(stubs):
    for tool in ("awk", "bash", "cat", "dirname", "id", "git", "realpath"):
        (stubs.bin / tool).symlink_to(shutil.which(tool))
    code, _, complained = stubs.run(path=str(stubs.bin))
    assert code == 2
    assert complained == "fresh: unshare not found; install it: apt-get install util-linux\n"


def test_a_folder_without_room_is_named(stubs):
    stubs.add("df", "echo; echo disk 100000 1 250 1% /")
    code, _, complained = stubs.run()
    assert code == 2
    assert f"8000 MiB in {stubs.machines}, found 250 MiB free; choose another place" in complained


def test_a_debootstrap_that_fails_is_shown_and_leaves_nothing(stubs):
    stubs.add("debootstrap", "echo 'E: no such mirror'; exit 1")
    code, said, complained = stubs.run()
    assert code == 2
    assert "E: no such mirror" in said
    assert "fresh: debootstrap failed; see its message above\n" in complained
    assert list(stubs.machines.iterdir()) == []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_machine_whose_creation_is_killed(stubs, end):
    (stubs.bin / "debootstrap").write_text(WAITING)
    process = stubs.start()
    assert eventually(stubs.told.exists), process.communicate()
    root = Path(stubs.told.read_text().strip())
    assert root.exists()
    assert not (root / "inner" / "file").exists()  # its mounts are not ours
    process.send_signal(end)
    process.communicate(timeout=20)
    assert eventually(lambda: not any(stubs.machines.iterdir()))
    assert eventually(lambda: not stubs.in_namespace())
    assert str(stubs.machines) not in Path("/proc/self/mountinfo").read_text()
