"""The figures of a tiny code base, counted by hand."""

import importlib.machinery
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "measure_code"


def load():
    loader = importlib.machinery.SourceFileLoader("measure_code", str(TOOL))
    spec = importlib.util.spec_from_loader("measure_code", loader)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode, before = True, sys.dont_write_bytecode
    loader.exec_module(module)
    sys.dont_write_bytecode = before
    return module


measure_code = load()


def measure(*arguments):
    return subprocess.run(
        [sys.executable, TOOL, *map(str, arguments)], capture_output=True, text=True
    )


def rows(folder, *options):
    result = measure(*options, folder)
    assert result.returncode == 0, result.stderr
    cells = [line.strip("| ").split(" | ") for line in result.stdout.splitlines() if "|" in line]
    return {cell[0]: cell[1] for cell in cells if len(cell) == 2}


def write(root, files):
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root


def lines(count, text="int x;"):
    return f"{text}\n" * count


def test_a_header_and_its_source_are_one_module_and_tests_count_separately(tmp_path):
    write(
        tmp_path,
        {
            "a/one.h": lines(20),
            "a/one.cc": lines(60),
            "a/one_test.cc": lines(500),
            "a/testing_one.h": lines(5),
            "a/two.cc": lines(50),
            "b/three.h": lines(10),
            "tests/four.cc": lines(7),
        },
    )
    table = rows(tmp_path)
    assert table["files, lines"] == "4, 140"
    assert table["test files, lines"] == "3, 512"
    assert table["file length, median / 95 % / max"] == "50 / 60 / 60"
    assert table["files under 50 lines"] == "50 %"
    assert table["modules"] == "3"
    assert table["module length, median / 95 % / max"] == "50 / 80 / 80"
    assert table["modules under 60 lines"] == "67 %"
    assert table["most modules in a folder"] == "2 (a)"


def test_a_headers_own_source_and_tests_are_not_includers(tmp_path):
    include = '#include "atp/a/one.h"\n'
    root = write(
        tmp_path / "atp",
        {
            "a/one.h": "",
            "a/one.cc": include,
            "a/one_test.cc": include,
            "a/two.h": include,
            "a/three.h": "",
            "a/three.cc": '#include "atp/a/three.h"\n#include "atp/a/two.h"\n',
            "b/four.cc": '#include "atp/a/two.h"\n',
        },
    )
    # one.h by two.h, two.h by three.cc and four.cc, three.h by nobody else.
    assert rows(root)["headers with one includer"] == "1 of 3"


CXX = r"""
#include "x.h"
namespace atp {
class Value {
 public:
  explicit Value(int number)
      : number_(number), text_{"}"} {
    check();
  }
  bool operator==(const Value& other) const { return number_ == other.number_; }
  Value& operator=(const Value&) = default;

 private:
  int number_{0};
  std::string text_;
};
#define SWALLOW(x)  \
  {                 \
    x
enum class Kind { kOne, kTwo };
const std::array<int, 2> kNumbers{{one(), two()}};
const auto kFunction = [](int x) {
  return x;
};
// void commented() {
auto Value::find(int key) const -> std::optional<int> {
  for (int i = 0; i < 1'000; ++i) {
    if (text_[i] == '{') return visit([&] { return R"({)"; });
  }
  return std::nullopt;
}
}  // namespace atp
"""


def test_functions_of_cxx_are_found_with_their_lengths():
    text = measure_code.without_literals(CXX)
    first_lines = [line.strip() for line in CXX.split("\n")]
    found = {
        first_lines[first]: last - first + 1 for first, last in measure_code.cxx_functions(text)
    }
    assert found == {
        "explicit Value(int number)": 4,
        "bool operator==(const Value& other) const { return number_ == other.number_; }": 1,
        "auto Value::find(int key) const -> std::optional<int> {": 6,
    }


def test_functions_of_rust_are_found_with_their_lengths():
    text = """
trait Named<'a> {
    fn name(&self) -> &'a str;
}
impl Named<'_> for X {
    fn name(&self) -> &str {
        "fn {"
    }
}
pub(crate) fn both(x: char) -> bool { x == '{' || x == '\\'' }
"""
    found = list(measure_code.rust_functions(measure_code.without_literals(text)))
    assert [last - first + 1 for first, last in found] == [3, 1]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        pytest.param("int x;  // why\n", 0, id="beside code"),
        pytest.param("// one\n\n  // two\n", 2, id="whole lines"),
        pytest.param("/* one\n two\n three */\n", 3, id="a block"),
        pytest.param('const char* x = "// no";\n', 0, id="in a string"),
    ],
)
def test_comment_lines_hold_nothing_else(text, count):
    assert measure_code.comment_lines(text) == count


def test_details_name_what_is_furthest_from_the_middle(tmp_path):
    write(tmp_path, {"a/long.cc": "void f() {\n" + lines(80) + "}\n", "a/short.h": "int x;\n"})
    output = measure("--details", tmp_path).stdout
    assert "82 a/long" in output and "82 a/long.cc:1" in output and "1 a/short" in output


@pytest.mark.parametrize("arguments", [[], ["nowhere"]])
def test_what_is_not_a_folder_is_named(arguments):
    result = measure(*arguments)
    assert result.returncode == 2
    assert "found no" in result.stderr and "expected a folder" in result.stderr


def test_a_walk_counts_what_includes_lead_to(tmp_path):
    write(
        tmp_path,
        {
            "a/start.cc": '#include "a/one.h"\n#include "b/two.h"\n',
            "a/one.h": '#include "b/two.h"\n',
            "b/two.h": "int two();\n",
            "b/two.cc": '#include "c/deep.h"\n',
            "c/deep.h": '#include "a/one.h"\n',  # a cycle ends as well
            "c/other.h": "int other();\n",
        },
    )
    found = rows(tmp_path, "--from", "a/start", "--from", "a/none")
    assert found["from a/start: modules / folders / arrows"] == "4 / 3 / 5"
    assert found["from a/none: modules / folders / arrows"] == "-"
