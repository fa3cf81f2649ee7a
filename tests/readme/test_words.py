"""One word for a thing: what pages, help texts, messages and keys do not say, and what they say.

Searched are the pages, the examples and other texts that a user is given, and the strings in the
program's and the library's sources. A row may allow another meaning in one place.
"""

import ast
import dataclasses
import re
import subprocess
from collections import Counter

import pytest

from tests.pages import REPOSITORY, all_pages

GLOSSARY = "docs/inside/glossary.md"


@dataclasses.dataclass(frozen=True)
class Word:
    """A word that is not used, as a regular expression, and the one that is."""

    found: str
    instead: str
    example: str
    allowed: tuple[tuple[str, str], ...] = ()  # (file, the text in which it means something else)


WORDS = [
    Word(
        r"--topology\b|\btopology(=| file)|examples/topologies",
        "a cluster file: --cluster, cluster=, examples/clusters",
        "atp plan best --topology cluster.yaml",
    ),
    Word(
        r"--workers\b",
        "--ranks",
        "atp sim --workers 8",
        (("docs/results/congestion.md", "sharing_contest"),),  # of an experiment's program
    ),
    Word(
        r"\balgorithm(: |=\W?|`? `)aggregation\b|\baggregation algorithm|"
        r"\b(ring|hierarchical), aggregation\b",
        "innetwork",
        "Allowed collectives: ring, hierarchical, aggregation, gloo",
    ),
    Word(
        r"ATP_OWN_SERVER|servers-inside|\bown server\b|\bembedded server|\bco-located\b|"
        r"\bserver in (its|the) process\b",
        "a colocated server: ATP_COLOCATED_SERVER, --colocated-servers",
        "a rank with a server in its process",
        (("atp/cli/run/run_command.cc", "each with its own server and core"),),
    ),
    Word(
        r"ATP_WAY_\w+|\batp_way\b|`way`|\bgroup, way\b|[{,]way[,=]",
        "path",
        "sum by (way) of operations{group,way,type}",
    ),
    Word(r"\bto_do\b|\bmend\b", "fix", '{"to_do": "allow UDP"}'),
    Word(
        r"\b(late|slow) ranks?\b|\b(rank|it) is (late|slow) \(|\blags? most\b|\blaggards?\b",
        "a straggler",
        "NACKs sent: loss, or slow ranks.",
    ),
]


def complaints(place, text, words=WORDS):
    """What `text` says that a row forbids."""
    found = []
    for word in words:
        for match in re.finditer(word.found, text):
            around = text[max(0, match.start() - 60) : match.end() + 60]
            if not any(place == file and part in around for file, part in word.allowed):
                found.append(f"{place}: {match.group()!r}: say {word.instead}")
    return found


def of_cpp(source):
    """The strings of a C++ source; adjacent ones are one."""
    code = re.sub(r"^\s*(//|#include).*$|\s//\s.*$", "", source, flags=re.MULTILINE)
    raw = re.findall(r'R"\((.*?)\)"', code, re.DOTALL)
    plain = re.sub(r'"\s*\n\s*"', "", re.sub(r'R"\(.*?\)"', "", code, flags=re.DOTALL))
    return "\n".join(raw + re.findall(r'"((?:\\.|[^"\\\n])*)"', plain))


def of_python(source):
    """The strings of a Python source, docstrings included."""
    strings = (one.value for one in ast.walk(ast.parse(source)) if isinstance(one, ast.Constant))
    return "\n".join(one for one in strings if isinstance(one, str))


def listed(*patterns):
    command = ["git", "-c", f"safe.directory={REPOSITORY}", "ls-files", *patterns]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    return done.stdout.split()


def texts():
    """(file, what users read of it)."""
    whole = listed("examples/*.yaml", "deploy", "docs/*.json", "atp/*.html", "examples/*.py")
    for name in [*all_pages(), *whole]:
        yield name, (REPOSITORY / name).read_text()
    for name in listed("atp/*.cc", "atp/*.h", "python/csrc/*.cc", "python/csrc/*.h"):
        if not re.search(r"_test\.cc$|/testing|/conformance/", name):
            yield name, of_cpp((REPOSITORY / name).read_text())
    for name in listed("python/atp/*.py"):
        yield name, of_python((REPOSITORY / name).read_text())


def test_no_text_for_users_says_a_word_that_has_a_better_one():
    assert [one for name, text in texts() for one in complaints(name, text)] == []


@pytest.mark.parametrize("word", WORDS, ids=lambda word: word.instead)
def test_every_row_can_fail(word):
    (found,) = complaints("a page", word.example)
    assert word.instead in found


def test_words_are_found_in_strings_and_not_in_the_rest_of_a_source():
    cpp = '// mend\nconst char* mend = "to_" "x"\n  "y"; say("mend {}"); help(R"(lags\nmost)");\n'
    assert of_cpp(cpp).count("mend") == 1 and "lags\nmost" in of_cpp(cpp)
    python = '"""mend"""\nmend = f"mend {mend}"  # mend\n'
    assert of_python(python).count("mend") == 2


def test_every_allowance_is_needed():
    all_texts = dict(texts())
    for word in WORDS:
        strict = [dataclasses.replace(word, allowed=())]
        for file, part in word.allowed:
            assert part in all_texts[file] and complaints(file, all_texts[file], strict), file


# Parentheses of the glossary that explain the same meaning further, beside `code` and links.
EXPLANATIONS = {
    "a parameter server without parameters",
    "TCP between ranks",
    "UDP_SEGMENT, UDP_GRO",
    "of two-byte values: 2K",
    "plain, RESEND, DIRECT",
    "d1, d2",
}
SECOND_MEANING = re.compile(
    r"\b(elsewhere|also (a|the|called)|in the code|sometimes|or else|; or (a|one|the)\b)"
)


def entries(text):
    """(terms, meaning) of each row of the glossary."""
    rows = re.findall(r"^\| (\*\*.*?) \| (.*) \|$", text, re.MULTILINE)
    return [(re.findall(r"\*\*(.+?)\*\*", terms), meaning) for terms, meaning in rows]


def doubts(text):
    """Terms that the glossary defines twice, and meanings that look like two."""
    found = entries(text)
    counts = Counter(term for terms, _ in found for term in terms)
    twice = [term for term, count in counts.items() if count > 1]
    for terms, meaning in found:
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|`[^`]*`", "", meaning)
        second = {one.strip() for one in re.findall(r"\(([^)]*)\)", plain)} - EXPLANATIONS - {""}
        if second or SECOND_MEANING.search(plain):
            twice.append(", ".join(terms))
    return twice


def test_the_glossary_defines_each_term_once_and_with_one_meaning():
    text = (REPOSITORY / GLOSSARY).read_text()
    assert len(entries(text)) > 50
    assert doubts(text) == []


@pytest.mark.parametrize(
    "planted",
    ["| **lane** | a node |\n| **lane** | a port |", "| **lane** | a node; elsewhere a port |",
     "| **lane** | a node (the page calls values lanes) |"],
)  # fmt: skip
def test_a_second_meaning_is_found(planted):
    assert doubts(planted) == ["lane"]
