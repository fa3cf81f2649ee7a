"""The check of names must notice two types with one name, and say where they are."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def check(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return subprocess.run(
        [sys.executable, ROOT / "tools" / "check_names.py", root], capture_output=True, text=True
    )


def inside(namespace, text):
    return f"namespace {namespace} {{\n\n{text}\n\n}}  // namespace {namespace}\n"


@pytest.mark.parametrize("kind", ["struct", "class", "enum class", "struct alignas(64)"])
def test_two_types_with_one_name_are_reported_with_their_places(tmp_path, kind):
    text = inside("atp", f"{kind} Finding {{\n}};")
    result = check(tmp_path, {"atp/cli/a.h": text, "atp/cli/b.h": "\n" + text})
    assert result.returncode == 1
    assert (
        "atp::Finding is defined at atp/cli/a.h:3 and at atp/cli/b.h:4; rename one" in result.stderr
    )


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(inside("atp", "struct Finding;"), id="a forward declaration"),
        pytest.param(inside("atp", "struct Report::Finding {\n};"), id="a member"),
        pytest.param(inside("atp", "struct Report {\n  struct Finding {\n  };\n};"), id="an inner"),
        pytest.param(inside("atp::sim", "struct Finding {\n};"), id="another namespace"),
    ],
)
def test_these_are_not_a_second_type(tmp_path, other):
    files = {"atp/a.h": inside("atp", "struct Finding {\n};"), "atp/b.h": other}
    assert check(tmp_path, files).returncode == 0
