"""The bugs that experiments/planted_bugs plants have their place in today's core."""

import pytest

from experiments.planted_bugs.bugs import BUGS
from experiments.report import REPOSITORY


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_its_place_is_found_once(bug):
    assert (REPOSITORY / bug.file).read_text().count(bug.found) == 1
    assert bug.planted != bug.found
