"""tools/mutate: its places in today's core, its rules, and that nothing stays planted."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from experiments.papers.registry import ENTRIES
from tests.pages import command
from tools.mutants import layers, operators, tensor_parallel
from tools.mutants.harmless import REASONS
from tools.mutants.mutant import Mutant, PlaceNotFound, Rule, of_rule
from tools.mutants.programs import TABLES, TESTS_OF_FOLDER
from tools.mutants.results import Report, Results
from tools.mutants.scratch import Run, Scratch
from tools.mutants.semantic import RULES

REPOSITORY = Path(__file__).parents[2]
TOOL = REPOSITORY / "tools" / "mutate"


def mutated_files():
    names = subprocess.check_output(["git", "ls-files", "atp"], cwd=REPOSITORY, text=True)
    return [name for name in names.splitlines() if operators.is_mutated(name)]


def operator_mutants():
    return [m for f in mutated_files() for m in operators.mutants(f, (REPOSITORY / f).read_text())]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_the_place_of_a_rule_is_found_once(rule):
    of_rule(rule, (REPOSITORY / rule.file).read_text())
    assert rule.planted != rule.found
    assert rule.file.rsplit("/", 1)[0] in TESTS_OF_FOLDER


@pytest.mark.parametrize("rule", tensor_parallel.RULES, ids=lambda rule: rule.name)
def test_a_mutant_of_tensor_parallelism_has_a_place_and_names_its_test(rule):
    text = (REPOSITORY / rule.file).read_text()
    compile(of_rule(rule, text).plant(text), rule.file, "exec")
    file, _, test = tensor_parallel.KILLERS[rule.name].partition("::")
    assert f"\ndef {test}(" in (REPOSITORY / file).read_text()


def test_no_two_mutants_have_the_same_name():
    names = [rule.name for rule in RULES + tensor_parallel.RULES]
    names += [m.identity for m in operator_mutants()]
    assert len(set(names)) == len(names)


def test_there_are_enough_of_both_kinds():
    assert len(RULES) >= 70
    assert sum(map(operators.in_sample, operator_mutants())) >= 100


def test_the_page_on_the_simulator_counts_the_rules():
    page = " ".join((REPOSITORY / "docs/inside/simulator.md").read_text().split())
    assert f" {len(RULES)} rules of the protocol left out by hand" in page


def test_the_command_of_that_page_selects_the_rules_in_source_files():
    """Testing them takes hours; CI tests six of all mutants (.ci/checks)."""
    program, *words = command("docs/inside/simulator.md", "tools/mutate --layers seeds")
    assert program == "tools/mutate"
    listed = mutate(*words, "--list")
    assert listed.returncode == 0, listed.stderr
    lines = listed.stdout.splitlines()
    names = {line.partition(": ")[2] for line in lines}
    assert names == {rule.name for rule in RULES if rule.file.endswith(".cc")}
    page = " ".join((REPOSITORY / "docs/inside/simulator.md").read_text().split())
    assert f" Today there are {len(names)}, which this command tests" in page


def test_every_folder_with_operators_has_tests():
    assert {name.rsplit("/", 1)[0] for name in mutated_files()} == set(TESTS_OF_FOLDER)


def test_the_tables_of_headers_name_files_that_exist():
    for headers, sources in TABLES.values():
        assert [name for name in headers + sources if not (REPOSITORY / name).is_file()] == []


def test_the_mutants_that_a_figure_must_miss_exist_and_so_do_their_figures():
    assert set(layers.FIGURES) <= {rule.name for rule in RULES}
    assert set(layers.FIGURES.values()) <= {entry.key for entry in ENTRIES if entry.run}
    listed = mutate("--list", "--layers", "papers")
    assert listed.returncode == 0, listed.stderr
    assert len(listed.stdout.splitlines()) == len(layers.FIGURES) == 3


def test_every_mutant_that_is_argued_harmless_exists():
    names = {rule.name for rule in RULES} | {m.identity for m in operator_mutants()}
    assert set(REASONS) <= names


def changed(text):
    """The lines that the operators generate from a snippet."""
    return [Mutant("", *c[:1], "", *c[1:]).plant(text) for c in operators.changes(text)]


@pytest.mark.parametrize(
    "text, expected",
    [
        ("return a < b;", ["return a <= b;"]),
        ("return a <= b;", ["return a < b;"]),
        ("return a > b;", ["return a >= b;"]),
        ("return a >= b;", ["return a > b;"]),
        ("return a == b;", ["return a != b;"]),
        ("return a != b;", ["return a == b;"]),
        ("return a &&\n    b;", ["return a ||\n    b;"]),
        ("return a || b;", ["return a && b;"]),
        ("return a + b;", ["return a - b;"]),
        ("return a - b;", ["return a + b;"]),
        ("return a | b;", ["return a & b;"]),
        ("return a & b;", ["return a | b;"]),
        ("for (; a; ++i) {", ["for (; a; --i) {"]),
        ("return true;", ["return false;"]),
        ("return a / 2;", ["return a / 3;"]),
        ("if (a.is(b)) return c;", ["if (!(a.is(b))) return c;"]),
        ("{\n  a.call(b);\n}", ["{\n  ;\n}"]),
        ("{\n  a->b = c;\n}", ["{\n  ;\n}"]),
        ("{\n  a += b;\n}", ["{\n  ;\n}", "{\n  a -= b;\n}"]),
        ("{\n  ++a_;\n}", ["{\n  --a_;\n}", "{\n  ;\n}"]),
    ],
)
def test_an_operator_makes_of(text, expected):
    assert sorted(changed(text)) == sorted(expected)


@pytest.mark.parametrize(
    "text",
    [
        "// a < b + 1",
        "/* a == b\n   a && b */",
        'text = "a < b || 1";',
        "#define A(b) (b < 1)",
        "#define A(b) \\\n  (b < 1)",
        "static_assert(a == b);",
        "ATP_CHECK(a < b &&\n          c);",
        "std::span<const std::byte> a(std::vector<int>&& b, T& c);",
        "template <class T>",
        "{\n  int a = b;\n}",
        "{\n  std::span<int> a(b);\n}",
        "{\n  call(a,\n       b);\n}",
        "{\n  return;\n}",
        "if (const auto a = b) c;",
        'std::string_view to_string(A a) {\n  if (a == B) return "b";\n}',
    ],
)
def test_no_operator_touches(text):
    assert changed(text) == []


def test_an_edit_elsewhere_leaves_the_identity_of_a_mutant():
    text = "{\n  if (a) b;\n  if (a) b;\n}\n"
    before = [m.identity for m in operators.mutants("f.cc", text)]
    after = [m.identity for m in operators.mutants("f.cc", f"{{\n  c();\n}}\n{text}")]
    assert before == [
        "f.cc: condition negated: if (a) b;",
        "f.cc: condition negated: if (a) b; #2",
    ]
    assert after == ["f.cc: statement left out: c();", *before]


@pytest.mark.parametrize("text, times", [("a b", 0), ("a found found b", 2)])
def test_the_error_for_a_rule_without_its_one_place_says_where_to_mend_it(text, times):
    with pytest.raises(
        PlaceNotFound, match=rf"“a sentence”.* {times} times in f\.cc, expected once"
    ):
        of_rule(Rule("a sentence", "f.cc", "found", "planted"), text)


@pytest.fixture
def scratch(tmp_path):
    """A scratch copy of a repository with one file."""
    repository = tmp_path / "repository"
    (repository / "atp/wire").mkdir(parents=True)
    (repository / "atp/wire/a.cc").write_text("a < b;\n")
    (repository / "CMakeLists.txt").write_text("project(a)\n")
    for words in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", "-C", repository, *words], check=True)
    found = Scratch(repository, tmp_path / "folder", jobs=1)
    found.refresh()
    return found


def test_the_original_text_is_restored_after_an_exception(scratch):
    (mutant,) = operators.mutants("atp/wire/a.cc", scratch.text("atp/wire/a.cc"))
    path = scratch.checkout / mutant.file
    with pytest.raises(KeyboardInterrupt), scratch.planted(mutant):
        assert path.read_text() == "a <= b;\n"
        raise KeyboardInterrupt
    assert path.read_text() == "a < b;\n"


def test_what_an_earlier_run_left_planted_is_taken_out(scratch):
    (scratch.checkout / "atp/wire/a.cc").write_text("a <= b;\n")
    (scratch.checkout / "atp/wire/gone.cc").write_text("removed from the repository since\n")
    scratch.refresh()
    assert (scratch.checkout / "atp/wire/a.cc").read_text() == "a < b;\n"
    assert not (scratch.checkout / "atp/wire/gone.cc").exists()


def test_what_is_as_it_was_is_not_written_again(scratch):
    path = scratch.checkout / "atp/wire/a.cc"
    before = path.stat().st_mtime_ns
    scratch.refresh()
    assert path.stat().st_mtime_ns == before


def test_two_runs_that_would_plant_in_one_copy_are_kept_apart(scratch):
    scratch.lock()
    with pytest.raises(BlockingIOError):
        Scratch(scratch.repository, scratch.folder, jobs=1).lock()


def test_a_command_that_hangs_is_killed_with_what_it_started(scratch):
    begin = time.monotonic()
    run = scratch.run(["sh", "-c", "echo begun; sleep 60 & wait"], limit=0.2)
    assert (run.code, run.output) == (None, "begun\n")
    assert time.monotonic() - begin < 30


def test_the_time_of_a_command_is_its_processor_time(scratch):
    assert scratch.run(["sh", "-c", "sleep 1.2"], limit=1).code == 0
    assert scratch.run(["sh", "-c", "while :; do :; done"], limit=0.2).code is None


def test_what_it_runs_ends_with_it(scratch):
    output = scratch.folder / "output"

    def end_once_it_runs(*_):
        if output.exists() and output.read_text().endswith("\n"):
            sys.exit(1)
        signal.setitimer(signal.ITIMER_REAL, 0.3)

    with pytest.raises(SystemExit):
        before = signal.signal(signal.SIGALRM, end_once_it_runs)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            scratch.run(["sh", "-c", "echo $$; exec sleep 60"], limit=50)
        finally:
            signal.signal(signal.SIGALRM, before)
    group = int(output.read_text())
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


MUTANT = Mutant("a rule", "semantic", "atp/wire/a.cc", 2, "<", "<=")


def results(folder, text="a < b;\n", tests="tests"):
    return Results(folder / "results.jsonl", lambda _: text, lambda *_: tests)


def test_what_is_known_is_not_asked_again_until_it_may_have_changed(tmp_path):
    held, killed = layers.Outcome("held"), layers.Outcome("killed", "Some.Test", 1.5)
    results(tmp_path).add(MUTANT, "seeds", held, seeds=10)
    results(tmp_path).add(MUTANT, "unit", killed)
    assert results(tmp_path).find(MUTANT, "seeds", seeds=10) == held
    assert results(tmp_path).find(MUTANT, "seeds", seeds=20) is None
    assert results(tmp_path).find(MUTANT, "unit") == killed
    assert results(tmp_path, tests="more").find(MUTANT, "seeds", seeds=10) is None
    assert results(tmp_path, tests="more").find(MUTANT, "unit") == killed
    assert results(tmp_path, text="a < c;\n").find(MUTANT, "unit") is None


def test_the_report_counts_what_compiles_and_names_what_survives():
    killed, held = layers.Outcome("killed", "Some.Test", 2), layers.Outcome("held", "", 4)
    other = Mutant("f.cc: < to <=: a", "< to <=", "f.cc", 2, "<", "<=")
    broken = Mutant("f.cc: + to -: a", "+ to -", "f.cc", 2, "+", "-")
    harmless = Mutant("no matter", "semantic", "f.cc", 2, "+", "-")
    report = Report(
        {
            MUTANT: {"unit": held, "seeds": killed},
            other: {"unit": held},
            broken: {"unit": layers.Outcome("broken")},
            harmless: {"unit": held},
        },
        {"no matter": "for a reason"},
        lambda _: 7,
    )
    assert report.unexplained() == [other]
    assert "3 mutants; 1 more do not compile" in report.totals()
    assert "semantic, seeds: 1 of 1 killed" in report.totals()
    assert "score: 50.0 % (1 of 2; 1 harmless ones are not counted)" in report.totals()
    assert "f.cc:7: f.cc: < to <=: a\n    UNEXPLAINED" in report.told_survivors()
    assert "no matter\n    for a reason" in report.told_survivors()
    assert "| a rule | atp/wire/a.cc:7 | held | killed: Some.Test | – |" in report.table()


@pytest.mark.parametrize(
    "test, code, output, expected",
    [
        ("unit", 1, "[  FAILED  ] A.B (3 ms)\n[  FAILED  ] A.B\n", "A.B"),
        ("unit", 1, "[  FAILED  ] A/B.C/4, where GetParam() = 7 (1 ms)\n", "A/B.C/4"),
        ("unit", None, "", "time-out"),
        ("unit", -6, "a.cc:7: broken: x\n", "unit stopped: a.cc:7: broken: x"),
        ("unit", -11, "", "unit stopped: exit -11"),
        ("seeds", 1, "seed 0\nseed 1\n", "seed 1: a wrong sum"),
        ("seeds", -6, "seed 0\n", "seed 0: a broken invariant"),
        ("end to end", 1, "FAILED tests/a.py::test_b - why\n", "tests/a.py::test_b"),
        ("python", 1, "FAILED python/tests/tensor_parallel/a.py::b[c] - why\n", "a.py::b[c]"),
        ("python", 1, "ERROR python/tests/tensor_parallel/a.py::b - why\n", "a.py::b"),
        ("Fig. 9", 1, "a\nnot as expected: Fig. 9: x: 1, expected 3\n", "Fig. 9: x: 1, expected 3"),
    ],
)
def test_a_kill_is_named_by_what_found_it(test, code, output, expected):
    assert layers.killer(layers.Test((), (), test), Run(code, output, 1)) == expected


def test_an_interrupted_build_is_not_taken_for_a_mutant_that_does_not_compile():
    test = layers.Test((), (), "unit")
    compiler = Run(1, "a.cc:7:1: error: no match for x\nninja: build stopped", 1)
    assert layers.first_error(test, compiler) == "no match for x"
    with pytest.raises(layers.DishonestCopy, match="unit was interrupted:\ninterrupted by user"):
        layers.first_error(test, Run(2, "interrupted by user", 1))


def mutate(*words):
    return subprocess.run([sys.executable, TOOL, *words], capture_output=True, text=True)


def test_the_list_names_a_mutant_with_its_place():
    done = mutate("--list", "--only", "a PARAMETER does not release")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("atp/core/dataplane/pipeline.h:")
    assert done.stdout.endswith(": a PARAMETER does not release\n")


def test_those_of_python_are_listed_with_their_layer():
    done = mutate("--list", "--layers", "python")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(tensor_parallel.RULES) == 28
    assert all(line.startswith("python/atp/") for line in done.stdout.splitlines())


def test_the_same_seed_draws_the_same():
    draws = [mutate("--list", "--draw", "5", "--seed", seed).stdout for seed in ("a", "a", "b")]
    assert draws[0] == draws[1] != draws[2]
    assert len(draws[0].splitlines()) == 5


def test_the_parts_are_the_whole():
    parts = [mutate("--list", "--part", f"{i}/3").stdout.splitlines() for i in (1, 2, 3)]
    assert sorted(sum(parts, [])) == sorted(mutate("--list").stdout.splitlines())


@pytest.mark.parametrize(
    "words, says",
    [
        (["--only", "no such mutant"], "no mutant matches; --list shows all of them"),
        (["--only", "("], "is not a regular expression"),
        (["--draw", "0"], "expected a number of at least 1, found 0"),
        (
            ["--layers", "unit,moon"],
            "unknown layer 'moon'; the layers are unit,seeds,e2e,papers,python",
        ),
        (["--layers", "unit,python"], "python has mutants of its own: name no other layer with it"),
        (["--part", "3/2"], "expected a part such as 1/2, found '3/2'"),
    ],
)
def test_wrong_use_ends_with_2_and_an_error_that_says_what_is_expected(words, says):
    done = mutate(*words)
    assert done.returncode == 2
    assert says in done.stderr
