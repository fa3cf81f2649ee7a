"""The commands of docs/plan/planner.md and of the help run."""

import os
import re
import subprocess
import sys

import pytest

from atp.planner import plan

from .conftest import BUILD, REPOSITORY

DOCUMENT = (REPOSITORY / "docs" / "plan" / "planner.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def shell(command, folder):
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    return subprocess.run(
        ["bash", "-e", "-c", command],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def document_folder(folder):
    """The checkout as the document's commands see it; what they write stays here."""
    (folder / "examples").symlink_to(REPOSITORY / "examples")
    return folder


@pytest.mark.parametrize("block", blocks("sh"), ids=lambda text: text.splitlines()[0][:60])
def test_the_documents_commands_run(block, tmp_path):
    result = shell(block, document_folder(tmp_path))
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("block", blocks("yaml"))
def test_the_documents_cluster_file_is_valid(block, program):
    program.write("document.yaml", block)
    program.output("matrix", "--cluster", "document.yaml")


@pytest.mark.parametrize("block", blocks("python"))
def test_the_documents_python_runs(block, tmp_path):
    assert plan  # the module that the document shows
    result = subprocess.run(
        [sys.executable, "-c", block],
        cwd=document_folder(tmp_path),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert result.returncode == 0, result.stderr


def help_examples():
    """(command line, from the help of which command)"""
    examples = []
    for command in ("", "best", "explain", "sweep", "matrix", "aggregation"):
        text = subprocess.run(
            [BUILD / "bin" / "atp", "plan", *command.split(), "--help"],
            capture_output=True,
            text=True,
            timeout=60,
        ).stdout
        text = text.partition("Examples")[2].replace("\n      --", " --")
        examples += re.findall(r"^  (atp plan .*)$", text, re.MULTILINE)
    return sorted(set(examples))


@pytest.mark.parametrize("command", help_examples())
def test_the_examples_of_the_help_run_as_printed(command, tmp_path):
    result = shell(command, document_folder(tmp_path))
    assert result.returncode == 0, result.stderr


def test_the_document_shows_the_programs_answer():
    golden = REPOSITORY / "tests" / "plan" / "golden" / "aggregation-four-equal-hosts.txt"
    assert f"```\n{golden.read_text().strip()}\n```" in DOCUMENT


def test_getting_started_shows_the_programs_answer():
    golden = REPOSITORY / "tests" / "plan" / "golden" / "best-flat-8.txt"
    page = (REPOSITORY / "docs" / "use" / "getting-started.md").read_text()
    assert f"```\n{golden.read_text().strip()}\n```" in page
