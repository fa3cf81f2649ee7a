"""A checkout may be in any folder, such as one whose name has a space, an umlaut or a quote."""

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "mein Prüf's Ordner"
TARGETS = re.search(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1].split()


def environment(**more):
    return {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")} | more


@pytest.fixture
def checkout(tmp_path):
    folder = tmp_path / NAME
    folder.mkdir()
    shutil.copy(ROOT / "Makefile", folder)
    return folder


@pytest.mark.parametrize("target", TARGETS)
def test_no_command_of_make_breaks_at_a_space(checkout, target):
    (checkout / "build/ns3").mkdir(parents=True)
    (checkout / "experiments").symlink_to(ROOT / "experiments")
    for file in ROOT.glob("requirements-*.txt"):
        shutil.copy(file, checkout)
    printed = subprocess.run(
        ["make", "--dry-run", target],
        cwd=checkout,
        env=environment(),
        capture_output=True,
        text=True,
    )
    assert printed.returncode == 0, printed.stderr
    commands = printed.stdout.replace("\\\n", " ")
    words = shlex.split(commands, comments=True)
    broken = [word for word in words if NAME.split()[0] in word and str(checkout) not in word]
    assert broken == [], commands


def test_make_configures_in_a_folder_with_a_space(tmp_path):
    """CMake's own run, with the files of this checkout; compiling is left out."""
    folder = tmp_path / NAME
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in names.split("\0"):
        if name and (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    (folder / ".venv").symlink_to((ROOT / ".venv").resolve())
    (folder / "tools/setup").write_text("#!/bin/sh\n")
    stub = tmp_path / "bin" / "cmake"
    stub.parent.mkdir()
    stub.write_text(f'#!/bin/sh\n[ "$1" = --build ] || exec {shutil.which("cmake")} "$@"\n')
    stub.chmod(0o755)
    done = subprocess.run(
        ["make", "build"],
        cwd=folder,
        env=environment(PATH=f"{stub.parent}:{os.environ['PATH']}"),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert (folder / "build/release/build.ninja").exists()


def test_install_rules_quote_the_folders_that_they_name():
    """The code that `cmake --install` runs: CMake splits what it expands, unless it is quoted."""
    text = (ROOT / "cmake/AtpPackage.cmake").read_text()
    (code,) = re.findall(r'install\(CODE "\n(.*?)\n"\)', text, re.DOTALL)
    bare = re.sub(r'\\".*?\\"', "''", code)
    assert re.findall(r"\$<TARGET_FILE:\w+>|\$\{PROJECT_\w+\}\S*|\\\$\{prefix\}\S*", bare) == []
