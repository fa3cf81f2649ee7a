"""The packages contain the pages, and the files that these tell a reader to use.

Here `cmake --install`, which tools/package packs, installs what is built; tests/packages tests the
packages themselves.
"""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import REPOSITORY, all_pages

BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release")).resolve()
PAGES = [name for name in all_pages() if name.startswith("docs/") or "/" not in name]
# Part of the demos, which run in a checkout.
ONLY_IN_A_CHECKOUT = ("examples/demo/", "examples/demo_tp/")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("a folder with spaces")
    subprocess.run(
        ["cmake", "--install", BUILD, "--prefix", folder],
        check=True,
        capture_output=True,
        timeout=300,
    )
    return folder / "share/doc/atp"


def named_in(page):
    return set(re.findall(r"\b(?:examples|deploy)/[\w./-]*\w", (REPOSITORY / page).read_text()))


@pytest.mark.parametrize("page", PAGES)
def test_each_example_that_a_page_names_is_installed(installed, page):
    assert (installed / page).exists()
    named = {name for name in named_in(page) if not name.startswith(ONLY_IN_A_CHECKOUT)}
    assert {name for name in named if not (installed / name).exists()} == set()


def test_pages_name_examples():
    assert {"examples/02_torch_ddp.py", "examples/models/gpt2-medium.json"} <= set().union(
        *map(named_in, PAGES)
    )
