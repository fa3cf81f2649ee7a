"""The page of contents names every page once, and what cites the protocol finds it."""

import os
import re

from tests.pages import REPOSITORY, all_pages

from .test_code_spans import tracked
from .test_pages import links

CONTENTS = REPOSITORY / "docs" / "README.md"
CITING = (".cc", ".h", ".c", ".py", ".md", ".txt", "mutate")
PROTOCOL = ("joining", "switch", "worker", "guarantees")


def docs():
    return [name for name in all_pages() if name.startswith("docs/")]


def test_the_page_of_contents_names_every_page_exactly_once():
    named = [os.path.normpath(f"docs/{target}") for _, target in links(CONTENTS)]
    assert sorted(name for name in named if name.startswith("docs/")) == sorted(
        name for name in docs() if name != "docs/README.md"
    )


def test_a_folder_says_for_whom_a_page_is():
    assert [name for name in docs() if name.count("/") == 1] == ["docs/README.md"]


def headings():
    """The titles of each section of the protocol, by its number."""
    found = {}
    for page in PROTOCOL:
        text = (REPOSITORY / f"docs/inside/protocol/{page}.md").read_text()
        for section in re.split(r"^## (?=\d+\. )", text, flags=re.MULTILINE)[1:]:
            number = section.partition(".")[0]
            found[number] = set(re.findall(r"^#{3,} (.*)$", section, re.MULTILINE))
    return found


def citations(text):
    """(section, title or None) of each; a citation may cross the lines of a comment."""
    plain = re.sub(r"\s*\n\s*(?://|#|\*)?\s*", " ", text)
    return re.findall(r"docs/inside/protocol`? §(\d+)(?:, \*([^*]+)\*)?", plain)


def complaints(text, sections):
    return [
        f"§{number}, *{title}*"
        for number, title in citations(text)
        if number not in sections or (title and title not in sections[number])
    ]


def test_a_citation_of_the_protocol_is_found_there():
    sections, wrong, count = headings(), {}, 0
    for name in tracked():
        path = REPOSITORY / name
        if not name.endswith(CITING) or not path.is_file():
            continue
        text = path.read_text(errors="ignore")
        count += len(citations(text))
        if said := complaints(text, sections):
            wrong[name] = said
    assert wrong == {} and count > 100


def test_a_wrong_citation_is_found():
    sections, place = {"5": {"Loss"}}, "docs/inside/protocol"
    text = f"// ({place}\n// §5, *Loss*)\n({place} §5, *Gain*; §6) `{place}` §11"
    assert complaints(text, sections) == ["§5, *Gain*", "§11, **"]
