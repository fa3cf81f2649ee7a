"""The pages that a newcomer reads first are short, and so are their sentences.

For the figures of every page, or of those named, now or at an earlier commit:

    .venv/bin/python -m tests.readme.test_reading [--at COMMIT] [PAGE]...

Flesch's reading ease is 206.835 - 1.015 words per sentence - 84.6 syllables per word; 60 to 70 is
plain English. Syllables are counted as groups of vowels, which is right for nine words in ten and
needs no dictionary. Only sentences count: no blocks, tables or headings, and a `code span` is one
word of one syllable.
"""

import argparse
import dataclasses
import re
import statistics
import subprocess

import pytest

from tests.pages import REPOSITORY, all_pages, without_blocks

FIRST_PAGES = ("README.md", "CONTRIBUTING.md", "docs/inside/protocol/README.md")
WORDS_OF_A_PRINTED_PAGE = 300
MOST_WORDS = 80_000  # of all pages
MOST_WORDS_OF_A_USER = 30_000
FOR_USERS = ("README.md", "docs/use/", "docs/operate/")
ITEM = re.compile(r"\s*(?:[*-]|\d+\.) +")


def read(page):
    return (REPOSITORY / page).read_text()


def paragraphs(text):
    """Each paragraph and each item of a list, as one line."""
    found = [""]
    for line in without_blocks(text).splitlines():
        if not line.strip() or line.lstrip().startswith(("|", "#", "![", "<!--")):
            found.append("")
        elif item := ITEM.match(line):
            found.append(line[item.end() :])
        else:
            found[-1] += " " + line.strip()
    return [one.strip() for one in found if one.strip()]


def sentences(text):
    found = []
    for paragraph in paragraphs(text):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", paragraph)  # a link's text
        plain = re.sub(r"`[^`]*`", "code", plain).replace("*", "")
        parts = re.split(r"(?<=[.!?:])\s+(?=[A-Z0-9“\"(])", plain)
        found += [one for one in parts if re.search("[a-z]", one)]
    return found


def syllables(word):
    letters = re.sub("[^a-z]", "", word.lower())
    groups = len(re.findall("[aeiouy]+", letters))
    silent = letters.endswith("e") and not letters.endswith("le")
    return max(groups - silent, 1)


@dataclasses.dataclass
class Figures:
    words: int  # of sentences
    sentence: float  # words of the median one
    ease: float


def figures(text):
    all_sentences = sentences(text)
    lengths = [len(one.split()) for one in all_sentences]
    words = [word for one in all_sentences for word in one.split()]
    per_word = sum(map(syllables, words)) / len(words)
    ease = 206.835 - 1.015 * statistics.mean(lengths) - 84.6 * per_word
    return Figures(len(words), statistics.median(lengths), ease)


def way_to_the_code():
    """(the names of the pages, their texts) from the README to the first line of code.

    CONTRIBUTING's first paragraph sends the reader to the glossary and then to a worked example.
    """
    contributing = read("CONTRIBUTING.md")
    directions = paragraphs(contributing)[0]
    assert "glossary" in directions and "worked example" in directions
    first_example = contributing.partition("\n## Example 2")[0]
    assert "## Example 1" in first_example
    names = ["README.md", "CONTRIBUTING.md", "docs/inside/glossary.md"]
    return names, [read("README.md"), first_example, read("docs/inside/glossary.md")]


def test_the_first_line_of_code_is_at_most_ten_printed_pages_from_the_readme():
    _, texts = way_to_the_code()
    words = sum(len(text.split()) for text in texts)
    assert words <= 10 * WORDS_OF_A_PRINTED_PAGE


def words_of(pages):
    """Without blocks, which show programs and what they print."""
    texts = [without_blocks(read(page)) for page in pages]
    return sum(bool(re.search(r"\w", word)) for text in texts for word in text.split())


def test_all_pages_have_no_more_words_than_one_can_read():
    assert words_of(all_pages()) <= MOST_WORDS


def test_a_user_meets_far_fewer():
    pages = [page for page in all_pages() if page.startswith(FOR_USERS)]
    assert words_of(pages) <= MOST_WORDS_OF_A_USER


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_half_of_a_pages_sentences_have_fewer_than_25_words(page):
    assert figures(read(page)).sentence < 25


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_a_page_is_plain_english(page):
    assert figures(read(page)).ease >= 60


@pytest.mark.parametrize("page", FIRST_PAGES)
def test_an_item_of_a_list_has_at_most_100_words(page):
    assert [one for one in paragraphs(read(page)) if len(one.split()) > 100] == []


def test_a_text_is_measured_as_flesch_did():
    text = (
        "# Head\n\n| a | table |\n\n```\ncode. code.\n```\n\nThe cat sat `here`. It saw [one](x).\n"
    )
    assert sentences(text) == ["The cat sat code.", "It saw one."]
    assert figures(text) == Figures(7, 3.5, pytest.approx(206.835 - 1.015 * 3.5 - 84.6))
    long = "An all-reduce over interconnected aggregation switches necessitates coordination. " * 3
    assert figures(long).ease < 0


def git(*words):
    return subprocess.run(
        ["git", *words], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout


def pages_at(commit):
    """The text of each page by its name; from the working tree if `commit` is None."""
    if commit is None:
        return {page: read(page) for page in all_pages()}
    names = git("ls-tree", "-r", "--name-only", commit).splitlines()
    pages = [name for name in names if name.endswith(".md")]
    return {page: git("show", f"{commit}:{page}") for page in pages}


def print_figures(commit, chosen):
    texts = pages_at(commit)
    print(f"{'words':>6} {'median sentence':>16} {'Flesch':>7}  page")
    for page in chosen or texts:
        found = figures(texts[page])
        print(f"{found.words:6} {found.sentence:16g} {found.ease:7.1f}  {page}")
    if commit is None:
        names, way = way_to_the_code()
        words = sum(len(text.split()) for text in way)
        print(f"{words} words in {', '.join(names)} to the first line of code")
        print(f"{words_of(all_pages())} words in all, blocks not counted")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Words, sentences and Flesch scores of the pages")
    parser.add_argument("--at", metavar="COMMIT", help="the pages of that commit")
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="only these (default: all)")
    arguments = parser.parse_args()
    print_figures(arguments.at, arguments.pages)
