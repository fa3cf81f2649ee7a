"""The purity check must notice what does I/O, and must not mistake a method's name for it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[2] / "tools" / "check_purity"


def check(folder, source):
    (folder / "unit.cc").write_text(source)
    compiler = shutil.which("c++")
    assert compiler, "the check reads object files, so its test needs a C++ compiler"
    for command in (
        [compiler, "-std=c++20", "-O2", "-c", "unit.cc", "-o", "unit.o"],
        ["ar", "rcs", "libunit.a", "unit.o"],
    ):
        subprocess.run(command, cwd=folder, check=True)
    return subprocess.run(
        [sys.executable, TOOL, folder / "libunit.a"], capture_output=True, text=True
    )


def test_allocation_containers_and_method_names_are_pure(tmp_path):
    result = check(
        tmp_path,
        """
        #include <map>
        #include <stdexcept>
        #include <string>
        #include <vector>
        struct Peer { void send(int); bool open(); int time() const; };
        int f(Peer& p, std::map<std::string, std::vector<int>>& m) {
          p.send(p.time());
          if (!p.open()) throw std::runtime_error("closed");
          return m["a"].at(3);
        }
        """,
    )
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    ("header", "statement", "rule"),
    [
        ("chrono", "(void)std::chrono::steady_clock::now();", "clock"),
        ("ctime", "(void)std::time(nullptr);", "clock"),
        ("cstdio", 'std::printf("%d", n);', "printf"),
        ("iostream", "std::cout << n;", "iostream"),
        ("fstream", 'std::ofstream("x") << n;', "iostream"),
        ("mutex", "static std::mutex m; m.lock();", "thread"),
        ("thread", "std::thread([] {}).join();", "thread"),
        ("cstdlib", "n = std::rand();", "random"),
        ("random", "n = std::random_device()();", "random"),
        ("cstdlib", 'n = std::getenv("A") != nullptr;', "environment"),
        ("sys/socket.h", "n = ::socket(AF_INET, SOCK_DGRAM, 0);", "socket"),
        ("unistd.h", "n = ::read(0, &n, 1);", "file"),
    ],
)
def test_io_is_refused_with_its_symbol_and_rule(tmp_path, header, statement, rule):
    result = check(tmp_path, f"#include <{header}>\nint f(int n) {{ {statement} return n; }}\n")
    assert result.returncode == 1
    assert f"({rule})" in result.stderr
    assert "unit.o" in result.stderr
