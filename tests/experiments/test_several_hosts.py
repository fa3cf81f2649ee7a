"""experiments/host/several_hosts.py in its smallest form: right sums, counted bytes, a table."""

import csv
import subprocess
import sys

from experiments import report
from tests.pages import shown

MODULE = "experiments.host.several_hosts"


def test_with_sums_in_memory_first_a_host_sends_as_much_as_with_one_rank(tmp_path):
    words = ["--ranks", "2", "--rounds", "1", "--bytes", "400000", "--mbit", "1000"]
    done = subprocess.run(
        [sys.executable, "-m", MODULE, tmp_path, *words],
        cwd=report.REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    head = shown("docs/results/performance.md", "ranks per host").splitlines()[0]
    assert f"{head}\n" in done.stdout
    with open(tmp_path / "several-hosts.csv") as file:
        one, each, memory = csv.DictReader(file)
    assert [one["ranks_per_host"], each["ranks_per_host"]] == ["1", "2"]
    assert float(each["sent_over_bytes"]) > 2
    assert 1 < float(memory["sent_over_bytes"]) < 1.5
    assert (tmp_path / "several-hosts.svg").read_text().startswith("<?xml")
