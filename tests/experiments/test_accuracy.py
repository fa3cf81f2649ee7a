"""experiments/accuracy in a tiny form: the promise holds, and training runs are compared."""

import csv
import subprocess
from pathlib import Path

from experiments.accuracy import training
from tests.pages import command, shown

REPOSITORY = Path(__file__).resolve().parents[2]


def rows_of(path):
    with open(path) as file:
        return list(csv.DictReader(file))


def test_a_tiny_run_draws_the_errors_and_compares_four_ways_to_train(tmp_path):
    typed = command("docs/results/accuracy.md", ".venv/bin/python -m experiments.accuracy")
    words = [*typed, tmp_path, "--short"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300, cwd=REPOSITORY)
    assert done.returncode == 0, done.stdout + done.stderr
    table = shown("docs/results/accuracy.md", "ranks way").splitlines()
    assert table[0] in done.stdout
    for row in table[1:]:
        assert row[:22].strip() in done.stdout  # the ranks and the way

    errors = rows_of(tmp_path / "magnitudes.csv")
    assert {row["way"] for row in errors} == {"int32", "int16", "gloo_float32", "gloo_bfloat16"}
    assert {row["world_size"] for row in errors} == {"4", "8"}
    assert (tmp_path / "magnitudes.svg").read_text().startswith("<?xml")

    trained = rows_of(tmp_path / "training.csv")
    assert len(trained) == 2 * 4  # types of the model, ways
    assert all(0 < float(row["train_loss"]) < 5 for row in trained)
    gradients = {(row["dtype"], row["way"]): row for row in rows_of(tmp_path / "gradients.csv")}
    ways = ("int32", "int16", "gloo_bfloat16")
    errors = [float(gradients["float32", way]["relative_error"]) for way in ways]
    assert errors == sorted(errors)


def trained(way, *losses):
    about = {"task": "cnn", "dtype": "float32", "world_size": 4, "way": way}
    return [
        {**about, "seed": seed, "train_loss": loss, "test_loss": loss, "accuracy": 0.5}
        for seed, loss in enumerate(losses)
    ]


def test_a_way_that_trains_worse_by_more_than_seeds_differ_is_reported():
    rows = trained("gloo_float32", 1.0, 1.1, 1.05) + trained("gloo_bfloat16", 1.0, 1.1, 1.06)
    rows += trained("int32", 1.01, 1.1, 1.1) + trained("int16", 1.3, 1.2, 1.25)
    complaints = training.told_apart(training.summarize(rows))
    assert len(complaints) == 2  # of both losses
    assert all("atp, int16 is +0.2000" in complaint for complaint in complaints)
