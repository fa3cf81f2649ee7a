"""The tests that the changelog names exist."""

import re

import pytest

from tests.pages import REPOSITORY

NAMED = sorted(
    set(re.findall(r"`([\w/]+\.(?:py|cc))::(\w+)`", (REPOSITORY / "CHANGELOG.md").read_text()))
)
DEFINITIONS = {".py": r"^def {}\(", ".cc": r"^TEST(?:_F|_P)?\(\w+, {}\)"}


def test_the_changelog_names_a_test_for_each_of_the_sixteen_defects():
    rows = re.findall(
        r"^\| (.+) \| (.+) \|$", (REPOSITORY / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    defects = [tests for defect, tests in rows if defect != "defect"]
    assert len(defects) == 16 and all("::" in tests for tests in defects)


@pytest.mark.parametrize("named", NAMED, ids=lambda named: named[1])
def test_a_named_test_exists(named):
    path, name = named
    within = "" if path.startswith(("atp/", "python/")) else "python/tests/tensor_parallel/"
    file = REPOSITORY / within / path
    definition = DEFINITIONS[file.suffix].format(name)
    assert re.search(definition, file.read_text(), re.MULTILINE)
