"""`atp help`, manual pages and completion describe what the program accepts."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

BUILD = Path(os.environ.get("ATP_BUILD", Path(__file__).parents[2] / "build" / "release"))
ATP = BUILD / "bin" / "atp"
VARIABLES = Path(__file__).parents[2] / "docs" / "use" / "variables.md"
# The page's variables that nobody sets by hand for a rank.
SET_BY_ATP_RUN = {"ATP_HOST_RANKS", "ATP_COLOCATED_SERVER", "ATP_WILLS"}
OF_A_CHECKOUT = {"ATP_PYTHON", "ATP_BUILD", "ATP_WRITE_DOCS"}
# In a shell that has read the script: what the Tab key offers at the end of a line of words.
ASK = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_atp
printf '%s\\n' "${COMPREPLY[@]}"
"""


def atp(*words):
    return subprocess.run([ATP, *words], capture_output=True, text=True, timeout=60)


def commands(*path):
    """Every command's words, groups among them."""
    found = [path]
    listed = atp(*path, "--help").stdout.partition("\nSubcommands:\n")[2].partition("\n\n")[0]
    for name in re.findall(r"^  (\S+)", listed, re.MULTILINE):
        found += commands(*path, name)
    return found


# Their options are a Python program's.
PASS_ON = {("plan", "calibrate"), ("plan", "compare"), ("plan", "import")}
ALL = [words for words in commands() if words not in PASS_ON] if ATP.exists() else [()]


def options_in_help(words):
    section = atp(*words, "--help").stdout.partition("\nOptions:\n")[2].partition("\n\n")[0]
    names = re.findall(r"^  (?:-\w,)?(--[\w,-]+)", section, re.MULTILINE)
    return {name for of_option in names for name in of_option.split(",")}


@pytest.fixture(scope="module")
def script(tmp_path_factory):
    path = tmp_path_factory.mktemp("completion") / "atp.bash"
    path.write_text(atp("completion", "bash").stdout)
    return path


def offered(script, line):
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", script, *line.split(" ")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_help_of_a_command_is_its_help_option(words):
    assert atp("help", *words).stdout == atp(*words, "--help").stdout != ""


@pytest.mark.parametrize("words", ALL, ids=" ".join)
def test_a_commands_manual_page_and_completion_have_all_of_its_options(words, script):
    page = atp("help", "--man", *words).stdout.replace("\\-", "-")
    in_page = set(re.findall(r"\\fB(--[\w-]+)\\fR", page))
    assert in_page == options_in_help(words)
    assert set(offered(script, " ".join(["atp", *words, "--"]))) == in_page


def test_every_page_is_well_formed(tmp_path):
    """groff understands every page, and no page has a macro that it should not need."""
    assert shutil.which("groff"), "groff not found: run tools/setup --dev"
    assert atp("help", "--install", tmp_path).returncode == 0
    pages = sorted((tmp_path / "share/man/man1").iterdir())
    assert len(pages) == len(ALL) + len(PASS_ON)
    for page in pages:
        text = page.read_text()
        assert text.startswith(f".TH {page.stem.upper().replace('-', chr(92) + '-')} 1 ")
        assert set(re.findall(r"^\.(\w+)", text, re.MULTILINE)) <= {
            "TH", "SH", "B", "TP", "nf", "fi",
        }  # fmt: skip
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", "-z", page],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("atp sw", ["switch"]),
        ("atp plan be", ["best"]),
        ("atp switch --quo", ["--quota"]),
        ("atp switch --log-level d", ["debug"]),
        ("atp switch --log-level = d", ["debug"]),
        ("atp bench allreduce --wire ", ["int32", "int16"]),
        ("atp completion ", ["-h", "--help", "bash"]),
        ("atp switch --stats ", []),  # bash's own: names of files
        ("atp run -n 4 -- python --he", []),  # another program's
    ],
)
def test_the_tab_key_offers_what_fits(script, line, expected):
    assert offered(script, line) == expected


def test_the_topic_has_each_variable_of_a_rank():
    named = set(re.findall(r"\bATP_\w+", atp("help", "environment").stdout))
    rows = re.findall(r"^\| (`ATP_.*?) \|", VARIABLES.read_text(), re.MULTILINE)
    documented = set(re.findall(r"\bATP_\w+", " ".join(rows)))
    assert documented - named == SET_BY_ATP_RUN | OF_A_CHECKOUT and named <= documented


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (
            ["enviroment"],
            "atp help: 'enviroment' is not a command or topic: did you mean environment?",
        ),
        (["--man", "plan", "frob"], "atp help: 'atp plan frob' is not a command"),
        (
            ["run", "reboot"],
            "atp: 'reboot' is not a command of 'atp run', which has no subcommands",
        ),
        (
            ["environment", "extra"],
            "atp help: found 'extra' after the topic 'environment', expected nothing",
        ),
        (["--"], "atp help: expected a command or a topic"),
        (["plan", "bset"], "atp: 'bset' is not a command of 'atp plan': did you mean best?"),
    ],
)
def test_an_unknown_topic_is_named(words, complaint):
    done = atp("help", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(complaint)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    done = atp("help", "--install", tmp_path / "file")
    assert done.returncode == 1
    assert done.stderr.startswith(f"atp help: cannot create {tmp_path}/file/share/man/man1: ")
