"""What the pages name in `code spans` exists: commands, options, files and variables.

A command in a sentence is typed here where it can be typed as it stands and costs little (TYPED);
of every other one the program, its commands, goals, options and files are looked up. Commands in
blocks are in test_blocks.py.
"""

import re
import subprocess
from pathlib import Path

import pytest

from tests.pages import REPOSITORY, all_pages, without_blocks

from . import commands
from .conftest import type_in

PAGES = all_pages()
TYPED = {
    "atp help environment",
    "atp help exit-codes",
    "atp help routes",
    "atp help --install ~/.local",
    "atp cluster cluster.yaml",
    "atp plan aggregation --cluster cluster.yaml",
    "atp plan best --cluster cluster.yaml --model config.json",
    "atp sim --cluster cluster.yaml",
    "atp sim --trace --seed 1",
    "build/release/bin/atp sim --count 20000 --threads 2",
    "make help",
    "tools/fresh --help",
    "tools/measure_code atp",
}
SMALLER = {"--count 20000": "--count 200"}
# Options that are not ours, and what an option of ours may be followed by.
FOREIGN_OPTIONS = {
    *("--allow-incomplete-ranks", "-O1", "-O3", "-minimize_crash", "-runs"),
    *("--force-reinstall", "--no-deps", "--no-cache-dir"),  # of pip
    *("--dependency", "--exclusive", "--oversubscribe", "--signal"),  # of sbatch
}
# The reader's own files.
OWN_FILES = {
    *("train.py", "config.json", "cluster.yaml", "/etc/atp/cluster.yaml"),
    *("network.yml", "topology.conf", "topology.yaml", "bench.json"),
}


def spans(page):
    found = re.findall(r"(?<!`)`([^`]+)`(?!`)", without_blocks((REPOSITORY / page).read_text()))
    return [" ".join(code.split()) for code in found]


ALL = [(page, code) for page in PAGES for code in spans(page)]


@pytest.mark.parametrize("page", PAGES)
def test_a_commands_program_goals_options_and_files_exist(page):
    said = {
        code: complaints
        for code in spans(page)
        if commands.is_command(code) and (complaints := commands.complaints(code))
    }
    assert said == {}


@pytest.mark.parametrize("command", sorted(TYPED))
def test_a_command_of_a_sentence_runs(command, sandbox):
    assert command in {code for _, code in ALL}, f"no page has `{command}` any more"
    for page, small in SMALLER.items():
        command = command.replace(page, small)
    assert type_in(sandbox, command)


def options():
    """The options of all our programs, from atp's help and the others' texts."""

    def of(path):
        text = commands.help_of_atp(*path)
        return text + "".join(of((*path, name)) for name in commands.subcommands(path))

    folders = ("experiments", "explore", "tools", "examples")
    names = [name for name in tracked() if name.startswith(folders)]
    texts = [(REPOSITORY / name).read_text(errors="ignore") for name in names]
    return commands.options_in("\n".join([of(()), *texts]))


def test_an_option_that_stands_alone_is_one_of_ours():
    ours = options() | FOREIGN_OPTIONS
    unknown = {
        (page, code)
        for page, code in ALL
        if re.match(r"--?[a-zA-Z]", code)
        for option in commands.OPTION.findall(re.sub(r'"[^"]*"', "", code))
        if option not in ours
    }
    assert unknown == set()


def tracked():
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={REPOSITORY}", "ls-files"],
        cwd=REPOSITORY, capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    return listed


SOURCES = (".cc", ".h", ".c", ".py", ".txt", ".cmake", ".toml", "Makefile")
NAME = re.compile(r"(k[A-Z]\w+|[a-z]+_\w+|\w+(?:::\w+)+)(?:\(.*\))?")
METRIC = re.compile(r"atp_\w+_(total|seconds|bytes)")  # made of a counter's name; test_metrics.py
# Names of other libraries, examples of style, and former names of files.
FOREIGN_NAMES = {"ddp_backend", "snake_case", "kConstant", "timeout_us", "best_command"}
OURS = re.compile(r"\bATP_\w*[A-Z0-9]\b")
FILE = re.compile(r"[\w./*-]+\.(cc|h|c|py|md|yaml|json|toml|txt|cmake|supp)")
FOLDER = re.compile(
    r"(atp|cmake|docs|examples|experiments|explore|fuzz|lab|python|tests|tools)(/[\w.*-]+)+/?"
)


def test_a_file_or_folder_that_is_named_exists():
    names = tracked()
    gone = set()
    for page, code in ALL:
        if not (FILE.fullmatch(code) or FOLDER.fullmatch(code)) or code in OWN_FILES:
            continue
        pattern = re.escape(code.rstrip("/")).replace(r"\*", "[^/]*")
        if not any(re.search(rf"(^|/){pattern}(/|\.\w+$|$)", name) for name in names):
            gone.add((page, code))
    assert gone == set()


def test_a_variable_or_constant_of_ours_exists():
    sources = [REPOSITORY / name for name in tracked() if name.endswith(SOURCES)]
    known = {name for path in sources for name in OURS.findall(path.read_text())}
    unknown = {
        (page, name) for page, code in ALL for name in OURS.findall(code) if name not in known
    }
    assert unknown == set()


def test_a_name_of_the_code_is_in_the_code():
    """`Timing::lease`, `kMaxRanks`, `switch_counter_of`; also file stems: `run_command`."""
    sources = [name for name in tracked() if name.endswith(SOURCES)]
    texts = "\n".join((REPOSITORY / name).read_text(errors="ignore") for name in sources)
    known = set(re.findall(r"\w+", texts)) | {Path(name).stem for name in sources} | FOREIGN_NAMES
    unknown = {
        (page, code)
        for page, code in ALL
        if NAME.fullmatch(code) and not METRIC.fullmatch(code)
        for part in NAME.fullmatch(code)[1].split("::")
        if part not in known
    }
    assert unknown == set()


@pytest.mark.parametrize("tool", ["fresh", "fuzz", "lint", "mutate", "sanitize", "setup"])
def test_a_tool_that_a_page_names_explains_itself_and_does_nothing_else(tool):
    text = commands.help_of(REPOSITORY / "tools" / tool)
    assert f"tools/{tool}" in text and len(text) < 5000


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("atp run -n 4 --switch -- atp bench allreduce -b 64K", None),
        ("atp run --no-such", "atp run has no option --no-such"),
        ("atp run -- atp bench allreduce --no-such", "atp bench allreduce has no option --no-such"),
        ("atp plan worst", "atp plan has no command 'worst'"),
        ("atp plan … --no-such", "no command of atp plan has no option --no-such"),
        ("make cake", "make has no goal cake"),
        ("make fuzz ARGS='--no-such packets'", "tools/fuzz has no option --no-such"),
        ("python -m experiments.none", "there is no module experiments.none"),
        (".venv/bin/python -m pytest tests/none.py", "there is no tests/none.py"),
        ("cmake --build --preset none", "buildPresets of CMakePresets.json has no 'none'"),
        ("tools/none", "there is no program tools/none"),
        ("ATP_NONE=1 atp version", "no page has the variable ATP_NONE"),
        ("ssh a0 'nohup atp run --no-such >log 2>&1 &'", "atp run has no option --no-such"),
        ("none --help", "nobody knows the program none; add it to commands.py"),
    ],
)
def test_what_does_not_exist_is_found(line, complaint):
    assert commands.complaints(line) == ([complaint] if complaint else [])
