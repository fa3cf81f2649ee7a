"""The demo must fail when a claim is false: each of its checks is made false, one at a time."""

import copy
import re
import sys
import types
from pathlib import Path

import pytest

from tests.pages import shown

DEMO = Path(__file__).resolve().parents[2] / "examples/demo"


@pytest.fixture
def comparison(monkeypatch):
    monkeypatch.syspath_prepend(str(DEMO))
    import comparison

    yield comparison
    for name in ("comparison", "job", "node_stats"):
        sys.modules.pop(name, None)


def run_of(backend):
    stats = {
        "atp": {"all_reduce": {"float32": {"calls": 60, "bytes": 4000}}},
        "peers": {"all_reduce": {"int64": {"calls": 1, "bytes": 8}}},
        "counters": {
            "gradients_sent": 1000,
            "repeats_plain": 3,
            "repeats_resend": 2,
            "repeats_direct": 1,
            "repeats_float": 0,
        },
    }
    counters = {
        "fragments_completed": 1000,
        "fragments_completed_by_one_packet": 990,
        "fragments_completed_by_server": 10,
        "udp_ip_bytes_in": 1_500_000,
    }
    return types.SimpleNamespace(
        backend=backend,
        result={
            "accuracy": 0.88,
            "losses": [2.0] * 60,
            "digests": ["abc"] * 4,
            "seconds": 1.0,
            "stats": [copy.deepcopy(stats) for _ in range(4)],
        },
        server=[{"time_s": 0.0, "counters": counters}],
    )


def change_accuracy(atp, gloo):
    atp.result["accuracy"] = gloo.result["accuracy"] = 0.83


def change_distance(atp, gloo):
    atp.result["accuracy"] = 0.896


def change_loss(atp, gloo):
    atp.result["losses"][49] *= 1.00011


def change_path(atp, gloo):
    atp.result["stats"][2]["peers"]["all_reduce"]["float32"] = {"calls": 1, "bytes": 4}


def change_share(atp, gloo):
    atp.server[-1]["counters"]["fragments_completed_by_one_packet"] = 949


def change_weights(atp, gloo):
    atp.result["digests"][3] = "abd"


def change_weights_of_gloo(atp, gloo):
    gloo.result["digests"][0] = "abd"


def outcome(comparison, change):
    atp, gloo = run_of("atp"), run_of("gloo")
    change(atp, gloo)
    expected = comparison.Expectation(images=60_000, epochs=2, accuracy=0.84)
    return comparison.Comparison(atp, gloo, expected)


def test_all_checks_pass_when_all_is_well(comparison):
    result = outcome(comparison, lambda atp, gloo: None)
    assert all(check.passed for check in result.checks())
    assert "99.00%" in result.table()
    assert re.search(r"repeated +24 ", result.table())  # of four workers


def test_docs_getting_started_md_shows_this_table(comparison):
    def labels(text):
        rows = [re.split(r"  +", line.strip())[0] for line in text.strip().splitlines()]
        return [re.sub(r"[\d,.]+", "N", row) for row in rows if row]

    page = shown("docs/getting-started.md", "atp          Gloo")
    table = outcome(comparison, lambda atp, gloo: None).table()
    assert labels(page.partition("\nLoss and share")[0]) == labels(table)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (change_accuracy, "test accuracy 83.00%, expected 84% or more"),
        (change_distance, "1.60 points apart, expected at most 1.5"),
        (change_loss, "the first 50 losses differ by 1.1e-04, expected at most 1e-04"),
        (change_path, "1 all-reduces of float32"),
        (change_share, "94.90% of the fragments reached the server as one packet"),
        (change_weights, "weights differ in the atp run"),
        (change_weights_of_gloo, "weights differ in the Gloo run"),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_a_single_false_claim_fails_and_is_named(comparison, change, words):
    failed = [check for check in outcome(comparison, change).checks() if not check.passed]
    assert len(failed) == 1
    assert words in failed[0].what


def test_a_loss_after_the_first_fifty_may_differ(comparison):
    def change(atp, gloo):
        atp.result["losses"][50] *= 2

    assert all(check.passed for check in outcome(comparison, change).checks())
