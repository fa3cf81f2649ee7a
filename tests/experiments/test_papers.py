"""experiments/papers in a tiny form: every entry says what it is, shapes can fail, runs resume."""

import json

import pytest

from experiments.papers import __main__ as papers
from experiments.papers import (
    faults,
    gradients,
    layers,
    page,
    real_loss,
    real_racks,
    real_switch,
    real_training,
    store,
    sweep,
)
from experiments.papers.entry import Check, Entry, Outcome, Size, State
from experiments.papers.registry import ENTRIES, INA, TP, find
from experiments.papers.static_pool import Pool, play
from experiments.report import REPOSITORY, plt
from experiments.sharing import contest


def test_there_are_twenty_entries_of_one_paper_and_eight_of_the_other():
    assert len({entry.key for entry in ENTRIES}) == len(ENTRIES)
    figures = [{entry.key.removesuffix("-real") for entry in paper} for paper in (INA, TP)]
    assert [len(keys) for keys in figures] == [20, 8]
    assert figures[0] | figures[1] <= {entry.key for entry in ENTRIES}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.key)
def test_no_entry_has_an_empty_cell(entry):
    assert entry.title and entry.claim and entry.why
    if entry.state is State.NOT_SHOWN:
        assert entry.run is None
    else:
        assert entry.run and entry.setup and entry.holds


def test_the_page_has_every_entry_and_no_line_is_too_long():
    for results in (
        {},
        {
            "9": {
                "ours": "ours",
                "spread": "none",
                "checks": [],
                "quick": True,
                "seconds": 1,
                "commit": "abc",
            }
        },
    ):
        text = page.contents(results)
        for entry in ENTRIES:
            assert f"### {entry.title}" in text and f"(#{page.slug(entry.title)})" in text
        assert all(
            len(line) <= 120 for line in text.splitlines() if not line.startswith(("|", "!"))
        )


def test_a_figure_without_its_shape_is_not_said_to_show_the_claim():
    entry = next(entry for entry in ENTRIES if entry.key == "9")
    checks = [{"what": "packets per fragment", "value": 6.0, "low": 0.9, "high": 1.1}]
    found = {"checks": checks}
    assert "not in this run: packets per fragment" in page.verdict(entry, found)
    assert page.verdict(entry, {"checks": []}) == entry.holds


def test_the_committed_page_has_these_entries():
    text = (REPOSITORY / "docs" / "results" / "papers.md").read_text()
    for entry in ENTRIES:
        assert f"### {entry.title}" in text
        if entry.run:
            assert (REPOSITORY / "docs" / "results" / "papers" / f"{entry.key}.svg").exists(), (
                entry.key
            )
    assert "not run yet" not in text


class Counted:
    """An entry whose runs are counted."""

    def __init__(self, value):
        self.runs = 0
        self.value = value
        self.entry = Entry(
            "9", "Fig. 9: a test", "claim", State.SIMULATED, "why", "setup", "yes", self
        )

    def __call__(self, size):
        self.runs += 1
        check = Check("the factor", self.value, 2.9, 3.1)
        return Outcome("ours", [{"a": 1}], "one run", [check], plt.figure())


def test_a_result_of_the_same_commit_and_size_is_not_run_again(tmp_path):
    one = Counted(3)
    for quick, again, runs in (
        (True, False, 1),
        (True, False, 1),
        (False, False, 2),
        (False, True, 3),
    ):
        assert papers.run_all([one.entry], Size(quick), tmp_path, again) == []
        assert one.runs == runs
    (tmp_path / "9.json").write_text("{")
    papers.run_all([one.entry], Size(False), tmp_path, False)
    assert one.runs == 4
    stored = json.loads((tmp_path / "9.json").read_text())
    assert stored["commit"] == store.commit()


def test_a_shape_that_does_not_hold_is_named_with_its_band_even_if_it_is_stored(tmp_path):
    wrong = Counted(2)
    for _ in range(2):
        (problem,) = papers.run_all([wrong.entry], Size(True), tmp_path, False)
        assert problem == "Fig. 9: a test: the factor: 2, expected 2.9 to 3.1"
    assert wrong.runs == 1


def test_an_entry_that_fails_does_not_end_the_others(tmp_path):
    def fail(size):
        raise RuntimeError("no such program")

    broken = Entry("8", "Fig. 8", "claim", State.SIMULATED, "why", "setup", "yes", fail)
    good = Counted(3)
    assert papers.run_all([broken, good.entry], Size(True), tmp_path, False) == [
        "Fig. 8: RuntimeError: no such program"
    ]
    assert good.runs == 1


def test_an_unknown_figure_is_wrong_usage(capsys):
    with pytest.raises(SystemExit) as exit_:
        papers.main(["--figure", "99"])
    assert exit_.value.code == 2 and "'99'" in capsys.readouterr().err


# CI also runs the others: `make papers ARGS=--quick` is a stage of its own.
QUICK = ["9", "9-real", "12", "13b-real", "15", "tp-7a", "tp-7b", "tp-table2", "tp-11", "tp-12"]


@pytest.mark.parametrize("key", QUICK)
def test_a_quick_run_has_the_shape_of_its_figure(key, tmp_path):
    assert papers.run_all(find([key]), Size(True), tmp_path, False) == []
    assert (tmp_path / f"{key}.svg").exists() and (tmp_path / f"{key}.csv").exists()


# The faults of faults.py, each with a figure that notices it, and soon. What no simulated figure
# notices has its tests elsewhere: a job's part in test_sharing.py, rehash (and congestion control
# alone, without the room) below, by real processes.
NOTICED = {
    "a static partition": "13b",
    "linear placement": "12",
    "one place": "15",
    "no room": "15",
    "no congestion control": "15",
    "no aggregation": "12",
}


@pytest.mark.parametrize("fault", NOTICED)
def test_a_product_with_a_fault_fails_the_shape_of_a_figure(fault):
    failed = faults.noticed(NOTICED[fault], fault, faults.Played(contest.play))
    assert failed, f"Fig. {NOTICED[fault]} does not notice {fault}"


def test_a_product_without_the_second_level_fails_the_shape(tmp_path, monkeypatch):
    monkeypatch.setattr(
        sweep,
        "play_all",
        lambda all_: contest.play_all([o | {"levels": min(o["levels"], 1)} for o in all_]),
    )
    (problem, *_) = papers.run_all(find(["9"]), Size(True), tmp_path, False)
    assert "expected" in problem


def test_a_fault_is_planted_only_in_the_product():
    seen = []
    change = faults.FAULTS["one place"]
    with faults.planted("15", "one place", lambda options: seen.append(options) or options):
        contest.play({"jobs": 1})
        contest.play({"jobs": 1, **contest.PAPER})
    assert seen == [change({"jobs": 1}), {"jobs": 1, **contest.PAPER}]
    assert seen[0] != {"jobs": 1}


def test_a_static_partition_in_our_place_is_the_one_beside_it():
    options = {"jobs": 2, "aggregators": 64}
    ours = contest.congestion_control(options, 128)
    assert faults.as_static_partition(ours) == contest.static_partition(options, 2)


def test_a_fault_that_is_not_noticed_needs_a_reason():
    assert faults.cell("12", "one place", []) is None  # it has one
    assert faults.cell("12", "one place", ["a check"]) is None
    assert "nothing says why" in faults.cell("12", "no aggregation", [])
    assert "a check" in faults.cell("12", faults.INTACT, ["a check"])


def test_the_page_has_a_table_of_faults_and_says_why_a_cell_is_blank():
    found = {"12": {fault: [] for fault in faults.FAULTS} | {"no aggregation": ["a check"]}}
    text = "\n".join(page.faults_section(found))
    assert "| no aggregation | yes |" in text and "| one place |   |" in text
    why = {row["fault"]: row["not noticed, because"] for row in page.blanks(found)}
    assert why.keys() == faults.FAULTS.keys() - {"no aggregation"} and why["one place"]


def test_real_processes_without_the_second_level_fail_the_shape(tmp_path, monkeypatch):
    of = real_racks.route
    monkeypatch.setattr(real_racks, "route", lambda network, worker, levels: of(network, worker, 1))
    problems = papers.run_all(find(["9-real"]), Size(True), tmp_path, False)
    assert problems and all("expected" in problem for problem in problems)


def test_real_processes_by_the_papers_rules_without_rehash_fail_the_shape(tmp_path, monkeypatch):
    rows = {name: ("hash", *rest) for name, (_, *rest) in real_switch.SCHEMES.items()}
    monkeypatch.setattr(real_switch, "SCHEMES", rows)
    problems = papers.run_all(find(["13b-real"]), Size(True), tmp_path, False)
    assert problems and all("expected" in problem for problem in problems)


@pytest.mark.parametrize(
    ("key", "fault"),
    [
        ("13a-real", "one place"),
        ("13b-real", "one place"),
        ("13c-real", "a static partition"),
        ("16b", "no congestion control"),
    ],
)
def test_real_processes_with_a_fault_fail_the_shape(key, fault):
    failed = faults.noticed(key, fault, None)
    assert failed and all("expected" in one for one in failed), failed


# As measured at 1 % loss. A product that recovers like another system must not have the shape.
LOSSY = {
    "atp": {"repeats_per_loss": 2.5, "by_timer": 0.03, "stalled": 0.01, "goodput_mbit": 88},
    "best": {"repeats_per_loss": 3.5, "by_timer": 1, "stalled": 0.01, "goodput_mbit": 91},
    "papers": {"repeats_per_loss": 2.3, "by_timer": 1, "stalled": 0.8, "goodput_mbit": 8},
}


@pytest.mark.parametrize("recovery", LOSSY)
def test_only_a_product_that_recovers_without_time_outs_has_the_shape_of_loss(recovery):
    rows = LOSSY | {"atp": LOSSY[recovery]}
    checks = real_loss.shape({(name, real_loss.WORST): row for name, row in rows.items()})
    assert all(check.holds for check in checks) == (recovery == "atp")


def test_counters_of_a_node_are_those_last_written_by_a_time(tmp_path):
    stats = tmp_path / "server.jsonl"
    lines = [
        json.dumps({"time_s": time, "counters": {"fragments_completed": count}})
        for time, count in ((10, 0), (11, 5), (12, 9), (13, 9))
    ]
    stats.write_text("\n".join(lines) + '\n{"time_s": 14, "coun')
    series = real_switch.Series(stats)
    assert [series.at(time, "fragments_completed") for time in (9, 10.5, 11, 20)] == [0, 0, 5, 9]
    assert series.between(10, 12.5, "fragments_completed") == 9
    assert series.active() == (11, 12)


def test_the_time_to_an_accuracy_is_that_of_the_first_test_that_has_it():
    tests = [{"accuracy": share, "seconds": n} for n, share in enumerate((0.5, 0.8, 0.7, 0.9))]
    assert real_training.reached(tests, 0.75)["seconds"] == 1
    assert real_training.reached(tests, 0.95)["seconds"] == 3


# The static pool, from queueing equations alone.


def test_a_pool_with_many_slots_is_as_fast_as_its_link():
    pool = Pool(slots=256, chunks=8000)
    service = pool.packet_bytes * 8 / pool.gbit + pool.packet_ns
    assert play(pool).gbit == pytest.approx(32 * pool.values / service, rel=0.01)


def test_a_pool_with_few_slots_sends_them_once_per_round_trip():
    pool = Pool(slots=4, chunks=4000)
    wire = pool.packet_bytes * 8 / pool.gbit
    round_trip = 2 * (wire + pool.delay_ns) + pool.packet_ns
    last_of_four = 3 * (wire + pool.packet_ns)
    assert play(pool).ns == pytest.approx(1000 * round_trip + last_of_four, rel=1e-9)


def test_every_chunk_is_answered_once_whatever_is_lost():
    for loss in (0, 0.001, 0.05):
        pool = Pool(workers=3, slots=16, chunks=500, loss=loss, seed=7)
        outcome = play(pool)
        assert outcome.answered == 500
        assert outcome.sent == 3 * 500 + outcome.repeats
        assert (outcome.repeats > 0) == (loss > 0)


def test_a_lost_packet_costs_a_time_out():
    slow = play(Pool(workers=2, slots=1, chunks=200, loss=0.02, timeout_ns=1e6))
    fast = play(Pool(workers=2, slots=1, chunks=200, loss=0))
    assert slow.ns >= fast.ns + 1e6 * slow.repeats / 2


# The simulator against queueing equations: a fragment passes four links up and down, and two hosts
# receive it. 62 values have 40 bytes of header, 8 of bitmap and 66 of UDP, IP and Ethernet.

WIRE_NS = (62 * 4 + 40 + 8 + 66) * 8 / 100
HOST_NS, DELAY_NS = 18, 1000
FRAGMENTS, OPERATIONS, UNMEASURED = 256, 30, 10


@pytest.mark.parametrize("window", [1, 4])
def test_without_queues_the_simulator_takes_the_equations_time_to_the_nanosecond(window):
    result = contest.play({"jobs": 1, "workers": 1, "aggregators": 64, "window": window,
                           "fragments": FRAGMENTS, "operations": OPERATIONS})  # fmt: skip
    round_trip = 4 * (WIRE_NS + DELAY_NS) + 2 * HOST_NS
    trips = FRAGMENTS * (OPERATIONS - UNMEASURED) / window
    assert result["measured_us"] * 1000 == pytest.approx(trips * round_trip, abs=1)


def test_with_a_full_window_the_simulator_is_as_fast_as_a_host_receives():
    result = contest.play({"jobs": 1, "workers": 8, "aggregators": 1024, "window": 256,
                           "fragments": FRAGMENTS, "operations": OPERATIONS})  # fmt: skip
    bound = 62 * 32 / (WIRE_NS + HOST_NS)
    assert result["goodput"][0] == pytest.approx(bound, rel=0.01)


# Models of training, and gradients.


def test_the_models_have_the_published_numbers_of_parameters():
    published = {"AlexNet": 61.1e6, "VGG16": 138.36e6, "ResNet50": 25.56e6, "ResNet152": 60.19e6}
    for name, count in published.items():
        assert sum(n for n, _ in layers.MODELS[name]) == pytest.approx(count, rel=0.01)


def test_an_iteration_lies_between_full_and_no_overlap():
    vgg16 = layers.MODELS["VGG16"]
    sums = sum(n for n, _ in vgg16) * 32 / 40 / 1e6
    time = layers.iteration_ms(vgg16, 191, 40)
    assert max(191, sums) < time < 191 + sums
    assert layers.iteration_ms(vgg16, 191, 1e9) == pytest.approx(191)


def test_a_false_positive_is_a_large_value_whose_sum_fits():
    import torch

    rows = torch.zeros(8, 2 * gradients.FRAGMENT)
    rows[0, 0] = 1.01 * gradients.largest_safe(8)  # its sum fits
    rows[:, -1] = 1.01 * gradients.largest_safe(8)  # this one overflows
    assert gradients.false_positives(rows) == (1, 16)


def test_block_exponents_lose_what_is_small_within_its_block_and_the_scale_what_is_small():
    import torch

    rows = torch.zeros(8, 2 * gradients.BLOCK)
    rows[:, 0] = 1.0
    rows[0, 1] = 2.0**-30  # beside 1: lost in its block, and below the scale
    rows[0, -1] = 2.0**-30  # alone in its block
    assert gradients.lost_in_blocks(rows) == (1, 2, 10)
