"""The programs in docs/plan/tensor-parallel.md run."""

import contextlib
import os
import re
import subprocess
import sys
from pathlib import Path

import torch

from atp.tensor_parallel import init_mesh

from ..network import PROGRAM

REPOSITORY = Path(__file__).resolve().parents[3]
DOCUMENT = (REPOSITORY / "docs" / "plan" / "tensor-parallel.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", DOCUMENT, re.MULTILINE | re.DOTALL)


def test_the_whole_program_trains_and_saves(tmp_path):
    (tmp_path / "train.py").write_text(blocks("python")[0])
    command = blocks("sh")[0]
    path = f"{PROGRAM.parent}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    python_path = os.pathsep.join([str(REPOSITORY / "python"), os.environ.get("PYTHONPATH", "")])
    # A thread of torch's Gloo may release an all-gather's tensor while the interpreter ends, which
    # aborts the process (c10d::ProcessGroupGloo::runLoop).
    for _ in range(4):
        result = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "PYTHONPATH": python_path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            timeout=120,
        )
        if result.returncode == 0 or "terminate called without" not in result.stderr:
            break
    assert result.returncode == 0, result.stdout + result.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\d+\.\d+)", result.stdout)]
    assert len(losses) == 2 and losses[1] < losses[0] < 6
    assert "rank 3 is in row 1 and column 1 of Mesh(2, 2) over gloo/gloo" in result.stdout
    assert len(list((tmp_path / "checkpoint").glob("shard-1-1-*.pt"))) == 1


def test_the_other_blocks_run(gloo_ranks, tmp_path):
    def body(_rank):
        init_mesh(1, 1)
        with contextlib.chdir(tmp_path):
            for block in blocks("python")[1:]:
                exec(block, {"torch": torch})

    gloo_ranks.run(1, body, backend="gloo")
