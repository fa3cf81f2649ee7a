"""tools/tidy in a repository of three files, with a clang-tidy that writes down what it reads."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "tidy"
CLANG_TIDY = """#!/bin/sh
for source; do :; done
echo "$(basename "$source")" >> "$READ"
! grep -H BAD "$source"
"""


@pytest.fixture
def tidy(tmp_path):
    """run() -> (exit status, output, the sources that were read, sorted)."""
    root = tmp_path / "repository"
    for folder in ("tools", "build/release", "bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy(TOOL, root / "tools")
    (root / "bin/clang-tidy-19").write_text(CLANG_TIDY)
    (root / "bin/clang-tidy-19").chmod(0o755)
    (root / "deep.h").write_text("int deep();\n")
    (root / "near.h").write_text('#include "deep.h"\n')
    (root / "one.cc").write_text('#include "near.h"\n')
    (root / "two.cc").write_text("int two;\n")
    (root / ".clang-tidy").write_text("Checks: all\n")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", root, *command], check=True)
    database = [{"file": str(root / f), "command": f"c++ {root}/{f}"} for f in ("one.cc", "two.cc")]
    (root / "build/release/compile_commands.json").write_text(json.dumps(database))

    def run(*files):
        read = tmp_path / "read"
        read.write_text("")
        environment = dict(os.environ, ATP_TIDY_CACHE=str(tmp_path / "known"), READ=str(read))
        environment["PATH"] = f"{root / 'bin'}:{environment['PATH']}"
        done = subprocess.run(
            [root / "tools/tidy", *(root / f for f in files or ("one.cc", "two.cc"))],
            capture_output=True, text=True, env=environment,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr, sorted(read.read_text().split())

    run.root = root
    return run


def test_what_was_clean_is_read_again_only_when_something_it_depends_on_has_changed(tidy):
    assert tidy()[::2] == (0, ["one.cc", "two.cc"])
    assert tidy()[::2] == (0, [])
    (tidy.root / "deep.h").write_text("int deep(int);\n")
    assert tidy()[::2] == (0, ["one.cc"])
    (tidy.root / ".clang-tidy").write_text("Checks: none\n")
    assert tidy()[::2] == (0, ["one.cc", "two.cc"])


def test_sources_that_are_compiled_together_are_checked_together(tidy):
    unit = tidy.root / "build/release/unity/0.cc"
    unit.parent.mkdir()
    unit.write_text('#include "one.cc"\n#include "two.cc"\n')
    database = tidy.root / "build/release/compile_commands.json"
    database.write_text(json.dumps([{"file": str(unit), "command": f"c++ {unit}"}]))
    status, output, read = tidy()
    assert (status, read) == (0, ["0.cc"])
    assert "clang-tidy: 2 files in 1 unit, 0 unchanged" in output
    assert tidy("two.cc")[::2] == (0, [])
    (tidy.root / "deep.h").write_text("int deep(int);\n")
    assert tidy("two.cc")[::2] == (0, ["0.cc"])


def test_what_is_not_clean_is_reported_every_time(tidy):
    (tidy.root / "two.cc").write_text("int BAD;\n")
    for _ in range(2):
        status, output, read = tidy()
        assert status == 1
        assert "two.cc:int BAD;" in output
        assert "two.cc" in read


def test_a_source_that_is_never_compiled_is_an_error(tidy):
    status, output, _ = tidy("deep.h")
    assert status == 1
    assert "is not in the compile database; run make build" in output
