"""Every fenced block of the pages is run here or by the test that known_blocks.py names.

That file also has the reason why a block is not run. A block that nobody has listed fails, and so
does an output that is not what its command prints. tools/fresh types those of the README on a bare
machine, `pip install` is in test_installation.py, and other tests take their blocks from the pages.
"""

import re
from pathlib import Path

import pytest

from tests.pages import REPOSITORY, Block, all_pages, blocks, form, shown, typed

from . import commands
from .conftest import type_in
from .known_blocks import BLOCKS, By, Here, begins, is_output, treatment

SHELL = {"sh"}
ALL = [block for page in all_pages() for block in blocks(page)]


def name_of(block):
    return f"{block.page}: {block.first_line[:40]}"


def typed_here():
    return [one for one in ALL if isinstance(treatment(one), Here)]


def without_prompt(text):
    """(commands, the output below them, or None if the block has no prompt)"""
    if not text.startswith("$ "):
        return text, None
    command, _, output = text.removeprefix("$ ").partition("\n")
    return command, output


def as_script(text, how):
    """The block as a script: services run in the background, and what follows waits for them."""
    for page, small in how.smaller:
        assert page in text, f"the page no longer has {page}"
        text = text.replace(page, small)
    lines = []
    for line in typed(text):
        if line.startswith(how.serving or " "):
            log = f"served-{len(lines)}"
            lines.append(f"{line} >{log} 2>&1 &")
            if line.startswith("atp "):
                lines.append(
                    f"timeout 20 sh -c 'until grep -q listening {log}; do sleep 0.05; done'"
                )
        else:
            lines.append(line)
    return "\n".join([*lines, how.then]).strip()


@pytest.mark.parametrize("block", typed_here(), ids=name_of)
def test_a_block_runs_and_prints_what_the_page_shows(block, sandbox, request):
    how = treatment(block)
    if how.addresses:
        request.getfixturevalue("needs_namespaces")
    text, output = without_prompt(block.text)
    said = type_in(sandbox, as_script(text, how), how.addresses, how.ends_with)
    if how.shows:
        output = shown(block.page, how.shows)
    if output is not None:
        assert (said == output) if how.exactly else (form(said) == form(output))


@pytest.mark.parametrize("page", all_pages())
def test_a_block_is_run_by_a_test_or_listed_with_the_reason(page):
    unknown = [
        f"a block of {page} begins with '{block.first_line}': list it in known_blocks.py"
        for block in blocks(page)
        if treatment(block) is None and not is_output(block)
    ]
    assert unknown == []


def test_a_block_that_nobody_has_listed_is_found():
    assert treatment(Block("README.md", "sh", "make cake\n")) is None
    assert treatment(Block("README.md", "sh", "make test-real-programs\n")) is None
    assert treatment(Block("docs/none.md", "sh", "make demo\n")) is None
    assert treatment(Block("README.md", "sh", "make demo\n")) is not None


def test_every_listed_block_is_still_in_its_page():
    gone = [
        (page, words)
        for page, known in BLOCKS.items()
        for words in known
        if not any(begins(block, words) for block in blocks(page))
    ]
    assert gone == []


def test_the_tests_that_are_said_to_run_a_block_read_its_page():
    silent = {
        (page, test)
        for page, known in BLOCKS.items()
        for how in known.values()
        if isinstance(how, By)
        for test in how.tests
        if Path(page).name not in (REPOSITORY / test).read_text()
    }
    assert silent == set()


def test_commands_are_in_blocks_tagged_sh():
    """Otherwise they would be mistaken for output."""
    untagged = [
        name_of(block)
        for block in ALL
        if not block.language
        and commands.PROGRAM.match(block.first_line)
        and "  " not in block.first_line.partition("#")[0].strip()  # as between columns
    ]
    assert untagged == []


@pytest.mark.parametrize("block", [one for one in ALL if one.language in SHELL], ids=name_of)
def test_a_blocks_programs_and_options_exist(block):
    lines = typed(block.text)
    assert [text for line in lines for text in commands.complaints(line)] == []


def test_the_cluster_page_shows_a_cluster_file_and_its_route(sandbox):
    (file,) = [block.text for block in blocks("docs/use/cluster.md") if block.language == "yaml"]
    (sandbox / "shown.yaml").write_text(file)
    said = type_in(sandbox, "atp cluster shown.yaml")
    names = {
        address: name for name, address in re.findall(r"^(\w+) \(([\d.]+),", said, re.MULTILINE)
    }
    (route,) = re.findall(r"^a1 .*\n.* route (\S+)", said, re.MULTILINE)
    by_name = " > ".join(names[hop.partition(":")[0]] for hop in route.split(","))
    assert f"a rank on a1 has the route {by_name}:" in page_text("docs/use/cluster.md")


def page_text(page):
    return " ".join((REPOSITORY / page).read_text().split())
