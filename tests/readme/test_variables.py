"""The variables of docs/variables.md are those whose misspellings are noticed."""

import ast
import re

from tests.pages import REPOSITORY

OF_TESTS = {"ATP_BUILD", "ATP_WRITE_DOCS"}


def test_the_page_the_program_and_the_module_know_the_same_variables():
    page = (REPOSITORY / "docs/variables.md").read_text()
    rows = re.findall(r"^\| (`[A-Z].*?) \|", page, re.MULTILINE)
    of_page = set(re.findall(r"`(ATP_\w+)`", " ".join(rows))) - OF_TESTS
    source = (REPOSITORY / "atp/cli/run/variable_names.cc").read_text()
    of_program = set(re.findall(r'"(ATP_\w+)"', source))
    module = (REPOSITORY / "python/atp/torch/_variables.py").read_text()
    names = next(
        one.value
        for one in ast.parse(module).body
        if isinstance(one, ast.Assign) and one.targets[0].id == "NAMES"
    )
    assert of_page == of_program == set(ast.literal_eval(names))
