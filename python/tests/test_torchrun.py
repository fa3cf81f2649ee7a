"""torchrun's elastic restarts: a worker is killed, all restart, and training continues."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from .ways import WAYS, environment_of

PROGRAM = Path(__file__).with_name("torchrun_training.py")
PYTHON = Path(__file__).resolve().parents[1]
STEPS = 6


def torchrun(folder, way, route, kill, backend="static"):
    """(attempt, first step, sum of the weights) of the attempt that finished."""
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3"]
        + ["--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
        + [PROGRAM, folder, str(STEPS), str(kill)],
        env={
            **os.environ,
            **environment_of(way),
            "ATP_ROUTE": route,
            "PYTHONPATH": str(PYTHON),
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    attempt, first, weights = (folder / "result").read_text().split()
    return int(attempt), int(first), weights


@pytest.mark.parametrize("way", WAYS)
def test_training_with_a_killed_worker_ends_with_the_same_bits_as_undisturbed_training(
    network, tmp_path, way
):
    undisturbed = torchrun(tmp_path / "undisturbed", way, network.route, kill=-1)
    restarted = torchrun(tmp_path / "restarted", way, network.route, kill=3)
    assert undisturbed[:2] == (0, 0)
    assert restarted == (1, 3, undisturbed[2])
