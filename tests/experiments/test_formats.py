"""experiments/numbers/formats.py in a tiny form: right sums, counted bytes, a table."""

import csv
import subprocess
from pathlib import Path

from tests.pages import command, shown

REPOSITORY = Path(__file__).resolve().parents[2]


def test_every_way_is_measured_and_blocks_cost_next_to_no_bytes(tmp_path):
    typed = command("docs/results/accuracy.md", ".venv/bin/python -m experiments.numbers.formats")
    words = [*typed, tmp_path, "--ranks=2", "--rounds=1", "--bytes=4194304"]
    done = subprocess.run(
        words,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    head = shown("docs/results/accuracy.md", "way     ").splitlines()[0]
    assert f"{head}\n" in done.stdout
    rows = {row["way"]: row for row in csv.DictReader(open(tmp_path / "formats.csv"))}
    assert set(rows) == {"fixed", "blocks", "int16", "gloo float32", "gloo float16"}
    beside_fixed = {way: float(row["bytes_beside_fixed"]) for way, row in rows.items()}
    assert beside_fixed["blocks"] < 1.0025
    assert 0.5 <= beside_fixed["int16"] < 0.505
    assert (tmp_path / "formats.svg").stat().st_size > 1000
