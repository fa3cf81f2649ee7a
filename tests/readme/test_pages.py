"""Every page's links lead somewhere, its lines are short, and the tour's lines are where it says.

A link to a line, `[Worker::submit](../atp/core/worker/worker.cc#L40)`, promises that its text is in
that file, and near that line. After a change that moved it further:

    .venv/bin/python -m tests.readme.test_pages
"""

import os
import re
from pathlib import Path

import pytest

from tests.pages import REPOSITORY, all_pages, without_blocks

LINK = re.compile(r"\[`?([^\]`]*)`?\]\(([^)\s]+)\)")
NEAR = 100  # lines: near enough to find it by its name


def pages():
    return [REPOSITORY / name for name in all_pages()]


def links(page):
    """(text, target) of each that stays in the repository."""
    found = LINK.findall(without_blocks(page.read_text()))
    return [(text, target) for text, target in found if "://" not in target]


def anchors(page):
    """The anchors that GitHub gives a page's headings."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def lines_with(words, path):
    return [n for n, line in enumerate(path.read_text().splitlines(), 1) if words in line]


def complaint_about(page, text, target):
    """The problem with a link; None if it leads where it says."""
    name, _, anchor = target.partition("#")
    path = Path(os.path.normpath(page.parent / name)) if name else page
    if not path.exists():
        return f"{target}: there is no {path.relative_to(REPOSITORY)}"
    line = re.fullmatch(r"L(\d+)", anchor)
    if line:
        at = lines_with(text, path)
        if not at:
            return f"{target}: '{text}' is not in the file"
        if min(abs(n - int(line[1])) for n in at) > NEAR:
            return f"{target}: '{text}' is on line {at[0]}; run python -m tests.readme.test_pages"
    elif anchor and path.suffix == ".md" and anchor not in anchors(path):
        return f"{target}: the page has no such heading"
    return None


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_the_links_of_a_page_lead_where_they_say(page):
    complaints = [complaint_about(page, *link) for link in links(page)]
    assert [text for text in complaints if text] == []


def test_the_tour_goes_through_the_lines():
    tour = REPOSITORY / "docs" / "inside" / "tour.md"
    assert sum("#L" in target for _, target in links(tour)) >= 20


def too_long(text):
    """Lines over 120 columns; a table's row cannot be broken, and code is what a program prints."""
    lines = without_blocks(text).splitlines()
    return [line for line in lines if len(line) > 120 and not line.lstrip().startswith("|")]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_pages_lines_have_at_most_120_columns(page):
    assert too_long(page.read_text()) == []


def test_a_line_that_is_too_long_is_found():
    long = "word " * 25
    page = f"{long}\n| {long} |\n```sh\n{long}\n```\nshort\n* {long}\n"
    assert too_long(page) == [long, f"* {long}"]


@pytest.mark.parametrize(
    ("text", "target", "complaint"),
    [
        ("make", "Makefile", None),
        ("make", "Makefil", "Makefil: there is no Makefil"),
        ("demo:", "Makefile#L30", None),
        ("no such text", "Makefile#L30", "Makefile#L30: 'no such text' is not in the file"),
        ("atp", "README.md#try-it", None),
        ("atp", "README.md#try-that", "README.md#try-that: the page has no such heading"),
    ],
)
def test_a_link_that_leads_nowhere_is_found(text, target, complaint):
    assert complaint_about(REPOSITORY / "README.md", text, target) == complaint


def mend(page):
    """Sets the number of every line that has moved to where its text is now."""

    def mended(link):
        text, target = link[1], link[2]
        name, _, anchor = target.partition("#L")
        at = lines_with(text, page.parent / name) if anchor else []
        if not at:
            return link[0]
        nearest = min(at, key=lambda n: abs(n - int(anchor)))
        return link[0].replace(f"#L{anchor}", f"#L{nearest}")

    page.write_text(LINK.sub(mended, page.read_text()))


if __name__ == "__main__":
    for each in pages():
        if "#L" in each.read_text():
            mend(each)
