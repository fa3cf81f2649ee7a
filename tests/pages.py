"""What the pages show: their fenced blocks, and outputs but for what differs from run to run."""

import dataclasses
import re
import shlex
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)```(.*)\n((?:.*\n)*?)^ *```$", re.MULTILINE)


def all_pages():
    """The names of all Markdown files under version control."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={REPOSITORY}", "ls-files", "*.md"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=True,
    )
    return listed.stdout.split()


@dataclasses.dataclass(frozen=True)
class Block:
    page: str
    tag: str  # what follows ```
    text: str

    @property
    def language(self):
        return self.tag.partition(" ")[0]

    @property
    def first_line(self):
        return self.text.strip().splitlines()[0].strip()


def blocks(page):
    found = FENCE.findall((REPOSITORY / page).read_text())
    return [Block(page, tag.strip(), text) for _, tag, text in found]


def shown(page, beginning):
    """The text of the page's block whose first line has this beginning."""
    (text,) = {one.text for one in blocks(page) if one.first_line.startswith(beginning)}
    return text


def command_line(page, beginning):
    """The only line of the page that is a command with this beginning, for a test to run."""
    lines = [line for one in blocks(page) if one.language == "sh" for line in typed(one.text)]
    (line,) = [line for line in lines if f"{line} ".startswith(f"{beginning} ")]
    return line


def command(page, beginning):
    """Its words, without a comment; `python` is the interpreter of the test."""
    words = shlex.split(command_line(page, beginning), comments=True)
    return [sys.executable if one in ("python", ".venv/bin/python") else one for one in words]


def typed(text):
    """The lines of a shell block, with continued lines joined."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#")]


def without_blocks(text):
    return FENCE.sub("", text)


def form(output):
    """Output without what differs from run to run: words, with numbers as N, and, in the lines of
    a table, where each word ends, as its columns are flush right."""
    lines = []
    for line in output.rstrip().splitlines():
        ends = [word.end() for word in re.finditer(r"\S+", line)]
        in_table = line.startswith((" ", "#  "))
        words = [re.sub(r"\d+(\.\d+)?", "N", word) for word in line.split()]
        lines.append((words, ends if in_table else None))
    return lines
