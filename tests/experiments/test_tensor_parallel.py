"""The experiments of tensor parallelism in a tiny form: they measure and draw."""

import json
import subprocess
import sys
from pathlib import Path

from experiments.tensor_parallel import meshes, steps

REPOSITORY = Path(__file__).resolve().parents[2]


def run(experiment, *words):
    command = [sys.executable, "-m", f"experiments.tensor_parallel.{experiment}", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=REPOSITORY)


def test_every_mesh_is_measured_beside_its_prediction(tmp_path, needs_namespaces):
    result = run("meshes", "--only", "tiny", "--rounds", 1, "--out", tmp_path)
    found = json.loads((tmp_path / "meshes.json").read_text()), result.stdout + result.stderr
    assert {tuple(one["mesh"]) for one in found[0]["tiny"]} == {(2, 1), (1, 2)}, found[1]
    assert (tmp_path / "meshes.svg").exists()


def test_chunks_are_traced(tmp_path, needs_namespaces):
    result = run("overlap", "--hidden", 64, "--steps", 1, "--out", tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    found = json.loads((tmp_path / "overlap.json").read_text())
    assert [one["chunks"] for one in found["runs"]] == [1, 2, 4]
    assert all(0 < one["exposed"] < one["seconds"] for one in found["runs"])
    # Chunks divide the same bytes differently.
    assert len({one["bytes"] for one in found["runs"]}) == 1
    assert (tmp_path / "overlap.svg").exists()


def test_a_rank_needs_the_memory_that_the_planner_says():
    result = run("memory", "--only", "grouped")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout.count("planned") == 2, "two meshes"


def test_a_wrong_order_of_meshes_is_reported():
    good = [
        {"mesh": [2, 1], "predicted": 1.0, "measured": [1.1, 1.0, 9.0]},
        {"mesh": [1, 2], "predicted": 2.0, "measured": [2.1]},
        {"mesh": [4, 1], "predicted": 2.05, "measured": [2.0]},  # too near to tell
    ]
    assert meshes.wrong_orders(good) == []
    good[0]["measured"] = [2.05]
    assert meshes.wrong_orders(good) == ["(2, 1) is not faster than (4, 1)"]


def test_a_mesh_that_takes_longer_than_predicted_is_reported():
    found = [
        {"mesh": [2, 1], "predicted": 1.0, "measured": [1.12]},
        {"mesh": [1, 2], "predicted": 1.0, "measured": [1.0, 1.09, 7.0]},
    ]
    ring, switch = meshes.TESTBEDS[1], meshes.TESTBEDS[2]
    assert switch.sums and meshes.unlike_predicted(switch, found) == []
    assert meshes.unlike_predicted(ring, found) == ["(2, 1) took 1.12 times the prediction"]


def test_training_steps_are_measured_beside_their_predictions(tmp_path, needs_namespaces):
    result = run("steps", "--only", "tiny", "--rounds", 1, "--out", tmp_path)
    said = result.stdout + result.stderr
    found = json.loads((tmp_path / "steps.json").read_text())["tiny"]
    assert {tuple(one["mesh"]) for one in found["entries"]} == {(2, 1), (1, 2)}, said
    assert [one["auto"] for one in found["entries"]] == [True, False], said
    for one in found["entries"]:
        assert 0 < one["computed"] < one["predicted"] <= one["computed"] + one["sent"], said
        assert len(one["measured"]) == 1
    assert (tmp_path / "steps.svg").exists()


def test_the_testbed_whose_cores_are_busy_runs_only_if_it_is_named(tmp_path):
    result = run("steps", "--only", "no such testbed", "--out", tmp_path)
    assert result.returncode == 2
    assert f"'{steps.BUSY.name}'" in result.stderr
    assert steps.BUSY not in steps.TESTBEDS


def test_what_predictions_of_steps_get_wrong_is_reported():
    def entry(mesh, predicted, measured, auto=False):
        return {"mesh": mesh, "collectives": ["ring", "ring"], "predicted": predicted,
                "measured": [measured], "auto": auto}  # fmt: skip

    good = [entry([2, 2], 1.0, 1.1, auto=True), entry([1, 4], 1.2, 1.3), entry([4, 1], 1.25, 1.29)]
    assert steps.shortfalls(good) == []
    for change, expected in (
        ({"measured": [1.16]}, "(2,2) ring took 1.16 times its prediction"),
        ({"measured": [0.84]}, "(2,2) ring took 0.84 times its prediction"),
        ({"measured": [1.31]}, "(2,2) ring is not faster than (1,4) ring"),
        ({"measured": [1.36]}, "the planner's (2,2) ring is 5% slower than (4,1) ring"),
    ):
        assert expected in steps.shortfalls([good[0] | change, *good[1:]])
