"""What experiments/planner/paper computes and experiments/planner/paper_plots.py draws."""

import csv
import subprocess
from pathlib import Path

import pytest

from experiments.planner import paper_plots
from experiments.report import BUILD, REPOSITORY

PUBLISHED = ("fig12", "ring-and-aggregation", "map-of-meshes")


def run(*arguments):
    return subprocess.run(
        [BUILD / "bin" / "planner_paper", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def table(path):
    """The cells of a table, its numbers as numbers."""
    with open(path, newline="") as file:
        return [
            [float(cell) if cell.replace(".", "").isdigit() else cell for cell in row]
            for row in csv.reader(file)
        ]


def test_the_text_is_the_golden_one():
    result = run()
    assert result.returncode == 0, result.stderr
    assert result.stdout == (Path(__file__).parent / "planner_paper.txt").read_text()


def test_every_table_is_drawn_and_the_published_ones_are_current(tmp_path):
    paper_plots.draw(tmp_path)
    tables = {path.stem for path in tmp_path.glob("*.csv")}
    assert tables == {path.stem for path in tmp_path.glob("*.svg")} == set(paper_plots.PLOTS)
    for name in PUBLISHED:
        published = table(REPOSITORY / "docs" / "plan" / "planner" / f"{name}.csv")
        for ours, theirs in zip(table(tmp_path / f"{name}.csv"), published, strict=True):
            assert ours == [
                pytest.approx(cell) if isinstance(cell, float) else cell for cell in theirs
            ]


def test_a_table_that_cannot_be_written_is_a_failure(tmp_path):
    (tmp_path / "fig12.csv").mkdir()
    result = run("--out", tmp_path)
    assert result.returncode == 1
    assert f"cannot write {tmp_path}/fig12.csv" in result.stderr
