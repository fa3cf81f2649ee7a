"""experiments/one_digest in its short form: one result, wherever the ranks run."""

import csv
import subprocess
from pathlib import Path

from experiments.one_digest import __main__ as one_digest
from tests.pages import command

REPOSITORY = Path(__file__).resolve().parents[2]


def test_a_few_places_have_one_result_and_one_digest(tmp_path, needs_namespaces):
    typed = command("docs/results/accuracy.md", ".venv/bin/python -m experiments.one_digest")
    words = [*typed, tmp_path, "--short"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    with open(tmp_path / "one-digest.csv") as file:
        rows = list(csv.DictReader(file))
    assert len(one_digest.distinct(rows, "atp", "sums")) == 1
    # Equal results prove something only if another order of the ranks shows over Gloo.
    assert len(one_digest.distinct(rows, "gloo", "sums")) > 1
    assert "1 different results of the same sums in 4 runs" in done.stdout


def row(result, digest="d", what="sums", run="here"):
    return {"backend": "atp", "what": what, "run": run, "result": result, "digest": digest}


def test_what_differs_is_reported():
    good = [row("x"), row("x"), row("y", what="train"), row("x", "e", run="in pieces")]
    assert one_digest.complaints(good) == []
    assert one_digest.complaints([*good, row("z")]) == ["2 different results of sums"]
    assert one_digest.complaints([*good, row("x", "e")]) == ["2 different digests of sums"]
    assert one_digest.complaints([*good, row("w", what="train")]) == [
        "2 different results of train"
    ]
    (ranks,) = one_digest.complaints([row("ranks differ: x z"), good[2]])
    assert ranks == "here: ranks differ: x z"
