"""The variables of docs/use/variables.md are those whose misspellings are noticed."""

import re

from tests.pages import REPOSITORY

OF_TESTS = {"ATP_BUILD", "ATP_WRITE_DOCS"}


def test_the_page_and_the_library_know_the_same_variables():
    page = (REPOSITORY / "docs/use/variables.md").read_text()
    rows = re.findall(r"^\| (`[A-Z].*?) \|", page, re.MULTILINE)
    of_page = set(re.findall(r"`(ATP_\w+)`", " ".join(rows))) - OF_TESTS
    source = (REPOSITORY / "atp/base/variable_names.cc").read_text()
    names = source[source.index("kNames") : source.index("};")]
    assert of_page == set(re.findall(r'"(ATP_\w+)"', names))
