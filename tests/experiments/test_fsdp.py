"""experiments/fsdp in its smallest form: both backends train as one rank does; the page's table."""

import csv
import subprocess
import sys

from experiments import report
from tests.pages import shown


def test_both_backends_shard_a_network_on_the_same_links(tmp_path):
    words = ["--ranks", "2", "--steps", "2", "--width", "64", "--blocks", "2", "--mbit", "400"]
    done = subprocess.run(
        [sys.executable, "-m", "experiments.fsdp", tmp_path, *words],
        cwd=report.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head = shown("docs/inside/torch-internals.md", "backend  ms per step").splitlines()[0]
    assert f"{head}\n" in done.stdout
    with open(tmp_path / "fsdp.csv") as file:
        ours, theirs = csv.DictReader(file)
    assert [ours["backend"], theirs["backend"]] == ["atp", "gloo"]
    assert float(ours["step_ms"]) > 0 and float(theirs["gloo_over_it"]) == 1
    assert (tmp_path / "fsdp.svg").read_text().startswith("<?xml")
