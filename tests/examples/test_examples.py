"""The example programs do what their first lines say."""

import os
import subprocess
from pathlib import Path

BUILD = Path(os.environ.get("ATP_BUILD", Path(__file__).resolve().parents[2] / "build" / "release"))


def run(ranks, *command):
    return subprocess.run(
        [BUILD / "bin" / "atp", "run", "-n", str(ranks), "--", *command],
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_all_reduce_sums_over_four_ranks():
    result = run(4, BUILD / "bin" / "examples" / "01_all_reduce")
    assert result.returncode == 0, result.stderr
    for rank in range(4):
        assert f"rank {rank} of 4: 1000 values, each 10, as expected" in result.stdout


def test_all_reduce_alone_says_how_to_run_it():
    environment = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE")}
    environment["ATP_JBO"] = "5"
    result = subprocess.run(
        [BUILD / "bin" / "examples" / "01_all_reduce"],
        capture_output=True,
        text=True,
        timeout=60,
        env=environment,
    )
    assert result.returncode == 2
    assert "run the program under `atp run`" in result.stderr
    assert result.stderr.count("atp: environment variable ATP_JBO is unknown; did you mean") == 1
