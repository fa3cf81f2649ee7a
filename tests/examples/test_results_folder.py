"""If results cannot be written to their folder, an error says so before anything is measured."""

import argparse
import subprocess
import sys
from pathlib import Path

import pytest

from lab.results import results_folder

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture
def file(tmp_path):
    """Not even root can create a folder in it."""
    path = tmp_path / "file"
    path.write_text("")
    return path


def test_a_folder_is_made_with_those_above_it(tmp_path):
    assert results_folder(str(tmp_path / "out" / "demo")).is_dir()


def test_an_existing_folder_stays_as_it_is(tmp_path):
    (tmp_path / "result").write_text("kept")
    assert results_folder(str(tmp_path)) == tmp_path
    assert [one.name for one in tmp_path.iterdir()] == ["result"]


def test_a_folder_that_cannot_be_made_is_an_error(file):
    with pytest.raises(argparse.ArgumentTypeError, match=r"file/out: Not a directory; choose a fo"):
        results_folder(str(file / "out"))


def test_a_folder_that_nobody_can_write_into_is_an_error():
    with pytest.raises(argparse.ArgumentTypeError, match="cannot write results into /proc: "):
        results_folder("/proc")


@pytest.mark.parametrize(
    "program",
    [
        ("examples/demo/demo.py", "--out"),
        ("examples/demo_tp/demo.py", "--out"),
        ("-m", "experiments.congestion.fairness"),
        ("-m", "experiments.tensor_parallel.meshes", "--out"),
        ("-m", "experiments.tensor_parallel.overlap", "--out"),
    ],
    ids=lambda words: words[-1] if words[0] == "-m" else words[0],
)
def test_every_program_says_so_in_a_line_and_ends(program, file):
    done = subprocess.run(
        [sys.executable, *program, file / "out"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    assert f"cannot write results into {file}/out: Not a directory; choose a folder" in done.stderr
    assert "Traceback" not in done.stderr
