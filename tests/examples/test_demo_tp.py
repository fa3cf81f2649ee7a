"""make demo-tp in its short form, and its checks, made false one at a time."""

import copy
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parents[2] / "examples/demo_tp"
MEASURED = {
    "replayed": [
        {"mesh": [2, 2], "predicted": 0.1, "measured": [0.12, 0.11, 0.3]},
        {"mesh": [4, 1], "predicted": 0.2, "measured": [0.21, 0.2, 0.22]},
    ],
    "trained": [
        {"mesh": [2, 2], "losses": [5.0, 4.0], "seconds": 1, "predicted": 1},
        {"mesh": [4, 1], "losses": [5.0, 4.001], "seconds": 1, "predicted": 1},
    ],
    "torch": {"losses": [5.0, 4.0], "seconds": 1},
}
LIES = {
    "measured times are in the predicted order": lambda m: m["replayed"][0].update(
        measured=[0.3, 0.3, 0.1]
    ),
    "the losses of all meshes, and torch's, agree": lambda m: m["trained"][0].update(
        losses=[5.0, 4.1]
    ),
    "the losses of all meshes, and torch's, agree within": lambda m: m["torch"].update(
        losses=[5.0, 4.1]
    ),
    "the model learns": lambda m: [one.update(losses=[5.0, 5.0]) for one in m["trained"]],
}


@pytest.fixture
def demo(monkeypatch):
    monkeypatch.syspath_prepend(str(DEMO))
    spec = importlib.util.spec_from_file_location("demo_tp", DEMO / "demo.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    for name in ("figure", "text"):
        sys.modules.pop(name, None)


def test_a_good_result_passes(demo, capsys):
    assert demo.report(MEASURED) == 0


@pytest.mark.parametrize("lie", LIES)
def test_a_bad_result_fails(demo, capsys, lie):
    measured = copy.deepcopy(MEASURED)
    LIES[lie](measured)
    assert demo.report(measured) == 1
    assert f"FAILED: {lie}" in capsys.readouterr().err


def test_the_short_demo_learns_the_same_on_every_mesh(tmp_path, needs_namespaces):
    """Its timings are for people: a busy machine may change the order of the meshes."""
    assert shutil.which("bible"), "no text to learn: run tools/setup, which installs bible-kjv"
    result = subprocess.run(
        [sys.executable, DEMO / "demo.py", "--short", "--out", tmp_path],
        capture_output=True,
        text=True,
        timeout=250,
    )
    assert (tmp_path / "demo_tp.png").exists(), result.stdout + result.stderr
    assert "Use mesh (2,2): ring on dimension 1, ring on dimension 2." in result.stdout
    step_of = re.search(r"^\(4, 1\) .* Megatron-style, 1-D$", result.stdout, re.MULTILINE)
    assert step_of and step_of.group().count(" ms") == 4, result.stdout
    assert re.search(r"^\(4, 1\) by torch's parallelize_module", result.stdout, re.MULTILINE)
    failures = [line for line in result.stderr.splitlines() if "FAILED" in line]
    assert all("in the predicted order" in line for line in failures), result.stderr
    assert result.returncode == (1 if failures else 0), result.stdout + result.stderr
