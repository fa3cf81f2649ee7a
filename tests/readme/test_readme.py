"""What the README and docs/getting-started.md, where it goes on, tell people to type, typed.

Every `sh` block must be known here, so that a new one cannot go untested. tools/fresh types all of
them on a bare machine; here are those that a built checkout can answer at once. The two-machine
recipe is in tests/netns, `pip install` in test_installation.py, and `make test` is what runs this.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
PAGES = ("README.md", "docs/getting-started.md")
README = "\n".join((REPOSITORY / page).read_text() for page in PAGES)
ELSEWHERE = {"apt-get install git make", "make demo", "source .venv/bin/activate", "make test"}


def blocks():
    return [text.strip() for text in re.findall(r"```sh\n(.*?)```", README, re.DOTALL)]


def environment():
    path = f"{BUILD / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"}


def shown_after(command):
    """The block of output that the README shows after a command."""
    _, _, rest = README.partition(f"```sh\n{command}\n```\n")
    return re.search(r"^```\n(.*?)^```", rest, re.DOTALL | re.MULTILINE)[1]


def form(output):
    """Output without what differs from run to run: words, with numbers as N, and, in the lines of
    a table, where each word ends, as its columns are flush right."""
    lines = []
    for line in output.splitlines():
        ends = [word.end() for word in re.finditer(r"\S+", line)]
        in_table = line.startswith((" ", "#  "))
        words = [re.sub(r"\d+(\.\d+)?", "N", word) for word in line.split()]
        lines.append((words, ends if in_table else None))
    return lines


@pytest.mark.parametrize("block", [block for block in blocks() if block not in ELSEWHERE])
def test_a_command_of_the_readme_succeeds(block):
    done = subprocess.run(
        ["bash", "-e", "-c", block],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if "bench" in block:
        assert "# Out of bounds values : 0 OK" in done.stdout
        assert form(done.stdout) == form(shown_after(block))


def test_the_commands_that_run_elsewhere_are_still_in_the_readme():
    assert ELSEWHERE <= set(blocks())
