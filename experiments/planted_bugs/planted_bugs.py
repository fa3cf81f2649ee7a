"""How many seeds does the simulator need to find a bug planted in the core?

    .venv/bin/python -m experiments.planted_bugs.planted_bugs [FOLDER]

Copies the checkout into FOLDER (default: a temporary one), builds `atp` there, and plants the bugs
of bugs.py one at a time. Each is built and played from seed 0 until a seed fails, at most as many
as the tests play. Prints a Markdown table; exit 1 if a bug was not found
that isn't marked as harmless.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments.planted_bugs.bugs import BUGS
from experiments.report import REPOSITORY
from lab.results import results_folder

SEEDS = 10_000  # of tests/virtual_network/seeds_test.cc
FOUND_AS = {1: "wrong sum", 2: "not finished, or something left over", 3: "a broken invariant"}
JOBS = str(os.cpu_count() or 1)


def say(text):
    print(text, file=sys.stderr, flush=True)


def copy_checkout(folder):
    files = subprocess.check_output(["git", "ls-files"], cwd=REPOSITORY, text=True)
    for name in files.splitlines():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / name, target)


def build(folder):
    command = ["cmake", "--build", "--preset", "release", "--parallel", JOBS, "--target", "atp"]
    subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def play(folder):
    """(exit code, seeds played up to the first that failed)"""
    atp = folder / "build" / "release" / "bin" / "atp"
    command = [atp, "sim", "--count", str(SEEDS)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
    replay = re.search(r"--seed (\d+)", done.stderr)
    return done.returncode, int(replay[1]) + 1 if replay else SEEDS


def try_bug(bug, folder):
    path = folder / bug.file
    honest = path.read_text()
    assert honest.count(bug.found) == 1, f"{bug.name}: not once in {bug.file}: {bug.found}"
    path.write_text(honest.replace(bug.found, bug.planted))
    try:
        build(folder)
        return play(folder)
    finally:
        path.write_text(honest)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", type=results_folder)
    folder = parser.parse_args().folder or Path(tempfile.mkdtemp(prefix="atp-planted-"))
    say(f"copying and building in {folder}")
    copy_checkout(folder)
    subprocess.run(
        ["cmake", "--preset", "release"], cwd=folder, check=True, stdout=subprocess.DEVNULL
    )
    build(folder)
    rows, missed = [], 0
    for number, bug in enumerate(BUGS, 1):
        say(f"{number}/{len(BUGS)}: {bug.name}")
        code, seeds = try_bug(bug, folder)
        missed += code == 0 and not bug.harmless
        found = FOUND_AS.get(code, f"exit {code}") if code else f"not found: {bug.harmless}"
        rows.append(f"| {bug.name} | {found} | {seeds:,} |")
        say(rows[-1])
    print("| planted | found as | after seeds |\n|---|---|---|")
    print("\n".join(rows))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
