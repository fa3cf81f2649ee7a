"""How many compilers a build runs at once, by cores and memory (cmake/AtpJobs.cmake)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
MEMINFO = "MemTotal: 99 kB\nMemFree: 1 kB\nMemAvailable: {} kB\nHugePages_Total: 0\n"
NEW, OLD = "sys/fs/cgroup", "sys/fs/cgroup/memory"


def new_group(path, limit, used=0, inactive=0):
    """A control group's files in version 2; `inactive` is the part of its cache that can go."""
    return {
        f"{NEW}{path}/memory.max": f"{limit}\n",
        f"{NEW}{path}/memory.current": f"{used}\n",
        f"{NEW}{path}/memory.stat": f"anon 5\ninactive_file {inactive}\n",
    }


def old_group(path, limit, used=0, inactive=0):
    return {
        f"{OLD}{path}/memory.limit_in_bytes": f"{limit}\n",
        f"{OLD}{path}/memory.usage_in_bytes": f"{used}\n",
        f"{OLD}{path}/memory.stat": f"cache 5\ninactive_file 1\ntotal_inactive_file {inactive}\n",
    }


def memory(mib):
    return {"proc/meminfo": MEMINFO.format(1024 * mib)}


OWN_OLD = {"proc/self/cgroup": "9:name=systemd:/\n4:cpu,memory:/a/b\n3:cpuset:/\n"}
CASES = {
    "as many as cores where there is memory enough": (8, memory(64_000), 8),
    "as many as memory allows": (64, memory(16_000), 10),
    "one on two cores with 2 GiB": (2, memory(2048), 1),
    "one even where there is too little": (4, memory(300), 1),
    "as many as cores where nothing is known": (8, {}, 8),
    "a container's limit": (8, {**memory(64_000), **new_group("", 4500 * MIB)}, 3),
    "what a container has left": (
        8,
        {**memory(64_000), **new_group("", 4500 * MIB, 1000 * MIB)},
        2,
    ),
    "a cache that can go is free": (
        *(8, {**memory(64_000), **new_group("", 4500 * MIB, 3000 * MIB, 3000 * MIB)}),
        3,
    ),
    "a container without a limit": (8, {**memory(64_000), **new_group("", "max", 5)}, 8),
    "this process's group": (
        8,
        {
            **memory(64_000),
            "proc/self/cgroup": "0::/user.slice/session\n",
            **new_group("/user.slice/session", 3000 * MIB),
        },
        2,
    ),
    "the group above it": (
        8,
        {
            **memory(64_000),
            "proc/self/cgroup": "0::/user.slice/session\n",
            **new_group("/user.slice", 1500 * MIB),
            **new_group("/user.slice/session", "max"),
        },
        1,
    ),
    "an older container's limit": (8, {**memory(64_000), **old_group("", 3000 * MIB)}, 2),
    "an older kernel's group, and the one above it": (
        *(
            8,
            {**memory(64_000), **OWN_OLD, **old_group("/a/b", 1 << 62), **old_group("/a", 3 << 30)},
        ),
        2,
    ),
    "an older kernel's group without a limit": (
        *(8, {**memory(64_000), **OWN_OLD, **old_group("/a/b", 9223372036854771712)}),
        8,
    ),
    "the machine's memory below a wide limit": (
        *(8, {**memory(3000), **new_group("", 64_000 * MIB)}),
        2,
    ),
}


@pytest.mark.parametrize(("cores", "files", "jobs"), CASES.values(), ids=CASES)
def test_as_many_compilers_run_as_cores_and_memory_allow(tmp_path, cores, files, jobs):
    for name, text in files.items():
        file = tmp_path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    said = subprocess.run(
        ["cmake", f"-Droot={tmp_path}", f"-Dcores={cores}", "-P", ROOT / "cmake/AtpJobs.cmake"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, f"-- {jobs}\n", "")


def test_every_way_to_build_has_the_limit(tmp_path):
    """CMake's rules, for a preset or for pip, put each compiler into the pool, and it says why."""
    shutil.copytree(ROOT / "cmake", tmp_path / "cmake")
    (tmp_path / "one.cc").write_text("int one;\n")
    text = (ROOT / "CMakeLists.txt").read_text()
    assert "include(cmake/AtpJobs.cmake)" in text
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(p CXX)\n"
        "include(cmake/AtpJobs.cmake)\nadd_library(one one.cc)\n"
    )
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text(MEMINFO.format(1024 * 300))
    said = subprocess.run(
        ["cmake", f"-Droot={tmp_path}", "-G", "Ninja", "-S", tmp_path, "-B", tmp_path / "b"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    rules = "".join(path.read_text() for path in (tmp_path / "b").rglob("*.ninja"))
    assert "pool atp_compilers\n  depth = 1\n" in rules
    assert "pool = atp_compilers" in rules
    if os.cpu_count() > 1:
        assert said.stderr.startswith("build: 1 compiler(s) at a time on "), said.stderr
        assert "and 300 MiB are free\n" in said.stderr
