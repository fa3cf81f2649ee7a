"""The layers of tests that may kill a mutant: unit tables, seeds, real processes, and figures; for
mutants of Python, the test that each of them names."""

import re
from dataclasses import asdict, dataclass

from tools.mutants.programs import rooms_of, tables_of
from tools.mutants.tensor_parallel import KILLERS

NAMES = ("unit", "seeds", "end to end", "papers", "python")

# Rules without which the product loses what the papers show. Each has a figure (experiments/papers)
# whose quick form, which CI runs, must then lose its shape.
FIGURES = {
    "the congestion window is ignored": "15",
    "a collision does not move a fragment": "14",
    "a sum may not be merged further up": "9",
}

END_TO_END = [
    "tests/independent_worker",
    "tests/e2e/test_bench.py",
    "tests/e2e/test_hostile.py",
    "tests/e2e/test_many_jobs.py",
    "tests/e2e/test_shards.py",
    "tests/e2e/test_switch_restart.py",
]

# The layers that have tests for a few mutants only.
ONLY_FOR = {"papers": FIGURES, "python": KILLERS}

# Files next to the code that are compiled only into its tests.
TEST_FILE = re.compile(r"_test\.|/testing_|_harness\.h$|/conformance/")

ENDINGS = {
    1: "a wrong sum",
    2: "not finished, or something left over",
    4: "wasteful",
    5: "a turn that the protocol does not allow",
}


@dataclass(frozen=True)
class Outcome:
    """result: "killed", "held", or "broken" (it does not compile). `by`: the test, or the error."""

    result: str
    by: str = ""
    seconds: float = 0.0

    def row(self):
        return asdict(self)


@dataclass(frozen=True)
class Test:
    """What to build, what to run in the copy, and a name for its failures."""

    targets: tuple
    command: tuple
    name: str


class DishonestCopy(Exception):
    """A test fails, or does not build, without a mutant."""


def tests_of(layer, mutant, scratch, seeds):
    """The tests of a layer, in the order in which they run."""
    file = mutant.file
    if layer == "unit":
        programs = tables_of(file) + [f"atp_{room}_test" for room in rooms_of(file)]
        return [unit_test(program, scratch) for program in programs]
    if layer == "seeds":
        program = scratch.build_folder / "play_seeds"
        return [Test(("play_seeds",), (str(program), str(seeds)), "seeds")]
    python = scratch.repository / ".venv" / "bin" / "python"
    if layer == "papers":
        figure = FIGURES[mutant.identity]
        command = (str(python), "-m", "experiments.papers", "--quick", "--again")
        command += ("--figure", figure, "--out", str(scratch.folder / "papers"))
        return [Test(("sharing_contest",), command, f"Fig. {figure}")]
    if layer == "python":
        killer = KILLERS[mutant.identity]
        # The copy has no build of its own, and its modules come before the checkout's.
        build = scratch.repository / "build" / "release"
        places = (f"PYTHONPATH={scratch.checkout / 'python'}", f"ATP_BUILD={build}")
        pytest = (str(python), "-m", "pytest", "-q", "-x", "--no-header", "-p", "no:cacheprovider")
        return [Test((), ("env", *places, *pytest, killer), killer)]
    command = (str(python), "-m", "pytest", "-q", "-x", "--no-header", *END_TO_END)
    return [Test(("atp", "reference_rank"), command, "end to end")]


def files_of_tests(layer, file, tracked):
    """Those of the tests that `layer` runs for a mutant of this file, without the tested code."""
    if layer == "unit":
        rooms = tuple(f"atp/{room.replace('_', '/')}/" for room in rooms_of(file))
        return [name for name in tracked if name.startswith(rooms) and TEST_FILE.search(name)]
    folders = {
        "seeds": ("atp/sim/",),
        "end to end": ("tests/independent_worker/", "tests/e2e/"),
        "papers": ("atp/sim/", "experiments/papers/", "experiments/sharing/"),
        "python": ("python/tests/",),
    }[layer]
    return [name for name in tracked if name.startswith(folders)]


def unit_test(target, scratch):
    program = scratch.build_folder / target
    return Test((target,), (str(program), "--gtest_fail_fast", "--gtest_brief=1"), target)


def killer(test, run):
    """What detected the mutant, in a few words."""
    if run.code is None:
        return "time-out"
    if test.name == "seeds":
        seeds = re.findall(r"^seed (\d+)$", run.output, re.MULTILINE)
        what = ENDINGS.get(run.code, "a broken invariant")
        return f"seed {seeds[-1]}: {what}" if seeds else what
    if lost := re.search(r"^not as expected: (.*)$", run.output, re.MULTILINE):
        return lost[1]
    failed = re.search(
        r"^\[  FAILED  \] ([^\s,]+)|^(?:FAILED|ERROR) (\S+)", run.output, re.MULTILINE
    )
    if failed:
        return (failed[1] or failed[2]).removeprefix("python/tests/tensor_parallel/")
    check = re.search(r"^\S+:\d+: .*$", run.output, re.MULTILINE)
    return f"{test.name} stopped: {check[0] if check else f'exit {run.code}'}"[:120]


class Judge:
    """Tests mutants by layers. A test must pass on the original code before it counts."""

    def __init__(self, scratch, seeds, say):
        self.scratch, self.seeds, self.say = scratch, seeds, say
        self.honest_seconds = {}

    def prove_honest(self, test):
        if test.name in self.honest_seconds:
            return
        self.say(f"{'building' if test.targets else 'running'} {test.name} without a mutant")
        built = self.scratch.build(test.targets)
        if built.code != 0:
            raise DishonestCopy(f"{test.name} does not build:\n{built.output[-3000:]}")
        run = self.scratch.run(test.command, 1800)
        if run.code != 0:
            raise DishonestCopy(f"{test.name} fails without a mutant:\n{run.output[-3000:]}")
        self.honest_seconds[test.name] = run.seconds
        self.say(f"{test.name} passes in {run.seconds:.1f} s")

    def ask(self, layer, mutant):
        tests = tests_of(layer, mutant, self.scratch, self.seeds)
        seconds = 0.0
        for test in tests:
            self.prove_honest(test)
            with self.scratch.planted(mutant):
                built = self.scratch.build(test.targets)
                seconds += built.seconds
                if built.code != 0:
                    return Outcome("broken", first_error(test, built), seconds)
                run = self.scratch.run(test.command, 30 + 10 * self.honest_seconds[test.name])
                seconds += run.seconds
            if layer == "python" and run.code not in (0, 1, None):
                # pytest found no test to run: the mutant is not even imported.
                return Outcome("broken", f"pytest ended with {run.code}", seconds)
            if run.code != 0:
                return Outcome("killed", killer(test, run), seconds)
        return Outcome("held", "", seconds)


def first_error(test, built):
    """The error of compiler or linker. Any other failed build is not the mutant's fault."""
    found = re.search(r"error: (.*)|(undefined reference .*)", built.output)
    if not found:
        raise DishonestCopy(f"the build of {test.name} was interrupted:\n{built.output[-3000:]}")
    return (found[1] or found[2])[:120]
