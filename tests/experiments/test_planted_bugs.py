"""The bugs that experiments/planted_bugs plants have their place in today's core."""

import importlib.util
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location(
    "bugs", REPOSITORY / "experiments" / "planted_bugs" / "bugs.py"
)
bugs = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(bugs)


@pytest.mark.parametrize("bug", bugs.BUGS, ids=lambda bug: bug.name)
def test_its_place_is_found_once(bug):
    assert (REPOSITORY / bug.file).read_text().count(bug.found) == 1
    assert bug.planted != bug.found
