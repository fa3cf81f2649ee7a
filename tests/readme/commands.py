"""Commands as the pages write them, and whether what they name exists: programs, options, files.

A page's command may stand for many (`atp plan … --json`, `tools/as_nobody COMMAND`), so a word in
capitals and an ellipsis are taken for anything.
"""

import functools
import importlib.util
import json
import os
import re
import shlex
import subprocess
from pathlib import Path

from tests.pages import REPOSITORY

from .conftest import BUILD

# Their options are not checked: they are not our programs.
FOREIGN = {
    "(umask", "apt-get", "callgrind_annotate", "cat", "chmod", "curl", "git", "kubectl", "ldd",
    "nft", "nvidia-smi", "pip", "podman", "sbatch", "source", "systemctl", "torchrun", "valgrind",
    "wait",
}  # fmt: skip
BEFORE_A_COMMAND = {"/usr/bin/time", "nohup", "sudo", "tools/as_nobody"}
# Where options of Python programs are defined; importing torch to hear --help would take seconds.
OF_EXPERIMENTS = REPOSITORY / "experiments" / "report.py"
OF_MEASURING = REPOSITORY / "python" / "atp" / "tensor_parallel" / "calibrate.py"
MEASURING = {("plan", "calibrate"), ("plan", "compare")}
SEPARATORS = {"|", "||", "&&", "&", ";", ";;"}
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
OPTION = re.compile(r"(?<![\w-])(--?[a-zA-Z][\w-]*)")
ANYTHING = re.compile(r"…|\.\.\.|[A-Z][A-Z0-9_]*(:[A-Z]+)?|<\w+>|\[\w+\]")
PROGRAM = re.compile(
    r"(\w+=\S+ )?(sudo |nohup )?"
    r"(atp|make|cmake|ctest|python|pip|git|ssh|torchrun|nvidia-smi|valgrind|curl|\.venv/bin/python"
    r"|build/release/(bin/)?\w+|tools/\w+|\.ci/\w+)( |$)"
)


def is_command(code):
    """Whether a `code span` is to be typed; a program's bare name, as in "`atp` is", is not."""
    if not PROGRAM.match(code):
        return False
    return " " in code or code.startswith((".ci/", "build/release/bin/", "tools/"))


def simple_commands(line):
    """The words of each simple command of a line, without redirections."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words, skip = [], False
    for word in lexer:
        if skip:
            skip = False
        elif word in SEPARATORS:
            yield words
            words = []
        elif set(word) <= set("<>&") and word:
            skip = True
        else:
            words.append(word)
    yield words


@functools.cache
def help_of(*command):
    done = subprocess.run(
        [*command, "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, f"{command} --help: {done.stderr}"
    return done.stdout


def help_of_atp(*path):
    return OF_MEASURING.read_text() if path in MEASURING else help_of(BUILD / "bin" / "atp", *path)


def options_in(text):
    return set(OPTION.findall(text))


def unknown_options(words, text, program):
    options = {word.partition("=")[0] for word in words if re.match(r"--?[a-zA-Z]", word)}
    return [f"{program} has no option {one}" for one in sorted(options - options_in(text))]


def complaints_about_files(words):
    names = [word for word in words if re.match(r"(tests|experiments|examples|python|docs)/", word)]
    return [f"there is no {name}" for name in names if not (REPOSITORY / name).exists()]


def subcommands(path):
    listed = help_of_atp(*path).partition("\nSubcommands:\n")[2]
    return re.findall(r"^  (\S+)", listed.partition("\n\n")[0], re.MULTILINE)


def of_atp(words):
    before, nested = words, []
    if "--" in words:
        at = words.index("--")
        before, nested = words[:at], words[at + 1 :]
    path = ()
    while before[len(path) :]:
        word = before[len(path)]
        names = subcommands(path)
        if names and ANYTHING.fullmatch(word):
            text = "".join(help_of_atp(*path, name) for name in names)
            return unknown_options(before, text, "no command of atp " + " ".join(path))
        if word not in names:
            if names and not word.startswith("-") and path != ("help",):
                return [f"atp {' '.join(path)} has no command '{word}'"]
            break
        path += (word,)
    program = " ".join(["atp", *path])
    text = help_of_atp(*path)
    found = unknown_options(before[len(path) :], text, program)
    found += complaints_about_files(before)
    return found + (of_words(nested) if nested else [])


def of_make(words):
    makefile = (REPOSITORY / "Makefile").read_text()
    goals = [word for word in words if not ASSIGNMENT.fullmatch(word)]
    found = [
        f"make has no goal {goal}"
        for goal in goals
        if not re.search(rf"^{re.escape(goal)}:", makefile, re.MULTILINE)
    ]
    for name, value in (ASSIGNMENT.fullmatch(w).groups() for w in words if ASSIGNMENT.fullmatch(w)):
        if f"$({name})" not in makefile and f"$(if $({name})" not in makefile:
            found.append(f"the Makefile has no {name}")
        if name == "ARGS" and goals and (REPOSITORY / "tools" / goals[0]).exists():
            found += of_tool(f"tools/{goals[0]}", shlex.split(value))
    return found


def of_tool(program, words):
    if not os.access(REPOSITORY / program, os.X_OK):
        return [f"there is no program {program}"]
    # Looked up in its text, as not every tool has a --help; where there is one, it prints the head.
    return unknown_options(words, (REPOSITORY / program).read_text(), program)


def of_python(words):
    if words[:2] == ["-m", "pytest"]:
        return complaints_about_files(words)
    if words[:1] == ["-m"] and words[1].startswith("torch."):
        return [] if importlib.util.find_spec(words[1]) else [f"there is no module {words[1]}"]
    if words[:1] == ["-m"]:
        path = REPOSITORY / words[1].replace(".", "/")
        if not path.with_suffix(".py").exists() and not (path / "__main__.py").exists():
            return [f"there is no module {words[1]}"]
        sources = [path.with_suffix(".py"), *path.glob("*.py"), OF_EXPERIMENTS]
        text = "".join(source.read_text() for source in sources if source.exists())
        return unknown_options(words[2:], text, words[1])
    return complaints_about_files(words)


def presets(kind):
    listed = json.loads((REPOSITORY / "CMakePresets.json").read_text())[kind]
    return {one["name"] for one in listed if not one.get("hidden")}


def of_cmake(words):
    kind = "buildPresets" if "--build" in words else "configurePresets"
    found = []
    if (name := value_of("--preset", words)) not in presets(kind):
        found.append(f"{kind} of CMakePresets.json has no '{name}'")
    target = value_of("--target", words)
    if target and target not in targets():
        found.append(f"there is no target {target}")
    return found


@functools.cache
def targets():
    """What the build can make: targets, and files relative to the build's folder."""
    listed = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True
    ).stdout
    return {line.partition(": ")[0] for line in listed.splitlines()}


def of_ctest(words):
    if (name := value_of("--preset", words)) not in presets("testPresets"):
        return [f"testPresets of CMakePresets.json has no '{name}'"]
    chosen = [option for option in ("-R", "-L") if option in words]
    selection = [word for option in chosen for word in (option, value_of(option, words))]
    listed = subprocess.run(
        ["ctest", "--test-dir", BUILD, "-N", *selection], capture_output=True, text=True
    ).stdout
    found = re.search(r"Total Tests: (\d+)", listed)
    return [] if found and int(found[1]) > 0 else [f"ctest {' '.join(selection)} selects no test"]


def value_of(option, words):
    return words[words.index(option) + 1] if option in words else None


def variables():
    page = (REPOSITORY / "docs" / "use" / "variables.md").read_text()
    return set(re.findall(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]+\b", page)) | set(
        re.findall(r"\bATP_\w+\b", (REPOSITORY / "tests/counted/test_counted.py").read_text())
    )


def of_words(words):
    """What is wrong with a simple command, as texts; empty if nothing is."""
    found = []
    while words and (words[0] in BEFORE_A_COMMAND or ASSIGNMENT.fullmatch(words[0])):
        if (assigned := ASSIGNMENT.fullmatch(words[0])) and assigned[1] not in variables():
            found.append(f"no page has the variable {assigned[1]}")
        words = words[1:]
    if not words or ANYTHING.fullmatch(words[0]):
        return found
    program, rest = words[0], words[1:]
    if program == "export":
        return found + of_words(rest)
    if program == "ssh":
        while rest[0].startswith("-"):  # -L 5580:127.0.0.1:5580
            rest = rest[2:]
        return found + complaints(" ".join(rest[1:]))
    if program in ("atp", "build/release/bin/atp"):
        return found + of_atp(rest)
    if program == "make":
        return found + of_make(rest)
    if program in ("python", ".venv/bin/python"):
        return found + of_python(rest)
    if program == "cmake":
        return found + of_cmake(rest)
    if program == "ctest":
        return found + of_ctest(rest)
    if program.startswith("build/release/"):
        name = program.removeprefix("build/release/")
        if name not in targets():
            return found + [f"the build makes no {program}"]
        options = [word for word in rest if word.startswith("-")]
        return found + (unknown_options(options, help_of(BUILD / name), program) if options else [])
    if program.startswith(("tools/", ".ci/")):
        return found + of_tool(program, rest)
    if program in FOREIGN:
        nested = [word for word in rest if word == "build/release/bin/atp"]
        found += of_words(rest[rest.index(nested[0]) :]) if nested else []
        return found + complaints_about_files(rest)
    return found + [f"nobody knows the program {program}; add it to {Path(__file__).name}"]


def complaints(line):
    """Of a line as it is typed."""
    return [text for words in simple_commands(line) for text in of_words(words)]
