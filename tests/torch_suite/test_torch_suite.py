"""torch's own tests of a backend: what passes over Gloo passes over atp, except for these."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PROGRAM = Path(__file__).with_name("run_suite.py")

# Each asks for Gloo by its name, inside torch.
OF_GLOO_ALONE = {
    "test_ddp_logging_data_cpu": 'expects the name "gloo", and finds "custom"',
    "test_monitored_barrier_gloo": "torch has monitored_barrier() for groups of Gloo only",
    "test_monitored_barrier_gloo_subgroup": "torch has monitored_barrier() for groups of Gloo only",
    "test_monitored_barrier_gloo_rank_0_timeout": "expects Gloo's text; ours names who is missing",
}


def outcomes(folder, backend, ranks, **environment):
    folder.mkdir()
    words = ["--backend", backend, "--ranks", str(ranks), "--folder", folder]
    done = subprocess.run(
        [sys.executable, PROGRAM, *words, "--output", folder / "outcomes.json"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python"), **environment},
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert (folder / "outcomes.json").exists(), done.stderr
    return json.loads((folder / "outcomes.json").read_text())


@pytest.fixture(scope="module", params=[3, 4])
def over_gloo(request, tmp_path_factory):
    found = outcomes(tmp_path_factory.mktemp("suite") / "gloo", "gloo", request.param)
    return request.param, found


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_what_passes_over_gloo_passes_over_atp(over_gloo, tmp_path, algorithm):
    ranks, theirs = over_gloo
    ours = outcomes(tmp_path / "atp", "atp", ranks, ATP_ALGORITHM=algorithm)
    assert sum(outcome == "passed" for outcome, _ in theirs.values()) >= 90
    failed = {
        name: why
        for name, (outcome, why) in ours.items()
        if theirs[name][0] == "passed" and outcome != "passed"
    }
    unexpected = {name: why for name, why in failed.items() if name not in OF_GLOO_ALONE}
    assert not unexpected, "\n\n".join(f"{name}: {why}" for name, why in unexpected.items())
    assert failed.keys() == OF_GLOO_ALONE.keys()
