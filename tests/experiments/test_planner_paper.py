"""The plots of docs/plan/planner.md are what experiments/planner/paper computes."""

import os
import subprocess
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))


def run(*arguments):
    return subprocess.run(
        [BUILD / "bin" / "planner_paper", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def output(*arguments):
    result = run(*arguments)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_text_is_the_golden_one():
    assert output() == (Path(__file__).parent / "planner_paper.txt").read_text()


def test_the_documents_plots_are_what_the_program_draws(tmp_path):
    output("--out", tmp_path)
    drawn = 0
    for path in (REPOSITORY / "docs" / "plan" / "planner").glob("*.svg"):
        # A measurement, and what another experiment draws (tests/experiments/test_summa.py).
        if path.name in ("planning-cost.svg", "summa.svg"):
            continue
        assert path.read_text() == (tmp_path / path.name).read_text(), path.name
        drawn += 1
    assert drawn >= 3


def test_all_plots_are_svg(tmp_path):
    output("--out", tmp_path)
    names = {path.name for path in tmp_path.iterdir()}
    assert {"fig12.svg", "fig7a-meshes.svg", "ring-and-aggregation.svg"} <= names
    for name in names:
        root = ElementTree.parse(tmp_path / name).getroot()
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert len(list(root)) > 10


def test_a_plot_that_cannot_be_written_is_a_failure(tmp_path):
    (tmp_path / "fig12.svg").mkdir()
    result = run("--out", tmp_path)
    assert result.returncode == 1
    assert f"cannot write {tmp_path}/fig12.svg" in result.stderr
