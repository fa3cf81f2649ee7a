"""Programs of other people's libraries under `atp run`: `make test-real-programs`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent
REPOSITORY = FOLDER.parents[1]
ATP = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"), "bin", "atp")
RANKS = 2


@pytest.fixture
def atp_program() -> Path:
    assert ATP.exists(), f"{ATP} does not exist: run `make build` first"
    return ATP


@pytest.fixture
def run_program(tmp_path, atp_program):
    """Runs a program of this folder on this many ranks over a backend; each rank's output."""

    def run(program, *arguments, algorithm="innetwork", ranks=RANKS):
        folder = tmp_path / "-".join([*arguments, algorithm])
        folder.mkdir()
        network = ["--switch"] if algorithm == "innetwork" else []
        words = [sys.executable, FOLDER / program, *arguments, folder]
        done = subprocess.run(
            [atp_program, "run", "-n", str(ranks), *network, "--", *words],
            env={
                **os.environ,
                "PYTHONPATH": str(REPOSITORY / "python"),
                "ATP_ALGORITHM": "ring" if algorithm == "ring" else "innetwork",
                "OMP_NUM_THREADS": "1",
            },
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(ranks)]

    return run
