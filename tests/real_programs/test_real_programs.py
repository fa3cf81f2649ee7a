"""Other people's training libraries compute the same over atp as over Gloo."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples" / "demo_tp" / "demo.py"
PROGRAMS = ["train_with_lightning.py", "train_with_accelerate.py", "train_with_trainer.py"]


def alike(ours, theirs) -> bool:
    if isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(alike(ours[k], theirs[k]) for k in theirs)
    if isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(alike, ours, theirs))
    if isinstance(theirs, float):
        return ours == pytest.approx(theirs, rel=1e-4, abs=1e-5)
    return ours == theirs


@pytest.mark.parametrize("program", PROGRAMS)
def test_training_is_the_same_as_over_gloo(run_program, program):
    over_gloo = run_program(program, "gloo")
    for algorithm in ("innetwork", "memory", "ring"):
        over_atp = run_program(program, "atp", algorithm=algorithm)
        for ours, theirs in zip(over_atp, over_gloo, strict=True):
            assert "all_reduce" in ours["summed by us"]
            for name in theirs.keys() - {"summed by us"}:
                assert alike(ours[name], theirs[name]), f"{name}: {ours[name]}, not {theirs[name]}"
            assert ours["losses"][-1] < ours["losses"][0]


def test_the_demo_trains_a_model_of_transformers_on_every_mesh(tmp_path):
    """Its timings are for people: a busy machine may change the order of the meshes."""
    done = subprocess.run(
        [sys.executable, DEMO, "--short", "--transformers", "--out", tmp_path],
        capture_output=True,
        text=True,
        timeout=250,
    )
    losses = re.findall(r"^trained on mesh \(\d, \d\): loss (\S+)$", done.stdout, re.MULTILINE)
    assert len(losses) == 3 and len(set(losses)) == 1, done.stdout + done.stderr
    assert re.search(r"^\(4, 1\) by torch's parallelize_module", done.stdout, re.MULTILINE)
    failures = [line for line in done.stderr.splitlines() if "FAILED" in line]
    assert all("in the predicted order" in line for line in failures), done.stderr
    assert done.returncode == (1 if failures else 0), done.stdout + done.stderr
