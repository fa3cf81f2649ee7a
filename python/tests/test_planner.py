"""atp.planner gives the answers of `atp plan best --json`, and needs no torch."""

import dataclasses
import importlib.resources
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atp.planner import Plan, plan

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
TOPOLOGIES = sorted((REPOSITORY / "examples" / "topologies").glob("*.yaml"))
MODELS = sorted((REPOSITORY / "examples" / "models").glob("*.json"))
GPT = {"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 24}


def run_cli(*arguments):
    return subprocess.run(
        [BUILD / "bin" / "atp", "plan", "best", "--json", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
    )


def as_json(answer: Plan):
    """A plan with the names that the program's JSON has."""

    def rename(value):
        if isinstance(value, dict):
            value = {key: rename(item) for key, item in value.items()}
            if "memory" in value:
                value["memory_bytes"] = value.pop("memory")
            if "text" in value:
                value["change"] = value.pop("text")
            return value
        return [rename(item) for item in value] if isinstance(value, (list, tuple)) else value

    return rename(dataclasses.asdict(answer))


def test_there_are_files_to_compare():
    assert len(TOPOLOGIES) >= 5
    assert len(MODELS) >= 2


@pytest.mark.parametrize("mode", ["linkload", "paper"])
@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("topology", TOPOLOGIES, ids=lambda path: path.stem)
def test_the_program_and_the_module_agree(topology, model, mode):
    program = run_cli("--topology", topology, "--model", model, "--mode", mode, "--batch", 64)
    try:
        answer = plan(topology, model, mode=mode, batch=64)
    except RuntimeError as error:
        assert program.returncode == 1
        assert str(error) in program.stderr
        return
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == as_json(answer)


def test_every_option_arrives():
    topology, model = REPOSITORY / "examples/topologies/two-racks.yaml", MODELS[0]
    program = run_cli(
        *("--topology", topology, "--model", model, "--workers", 16, "--batch", 8),
        *("--sequence", 512, "--element-bytes", 4, "--collectives", "ring,hierarchical"),
        *("--fused", "--count-norms", "--chunks", 2, "--device-memory", 1000),
    )
    answer = plan(
        topology,
        model,
        16,
        batch=8,
        sequence=512,
        element_bytes=4,
        collectives=["ring", "hierarchical"],
        fused=True,
        count_norms=True,
        chunks=2,
        device_memory_gb=1000,
    )
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == as_json(answer)


def test_the_papers_own_number_for_the_torus_can_be_had():
    torus = REPOSITORY / "examples/topologies/fig7b.yaml"
    corrected = plan(torus, GPT, mode="paper")
    assert corrected.mesh == (4, 4)
    uncorrected = plan(torus, GPT, mode="paper", point_to_point_correction=False)
    assert uncorrected.mesh == (8, 2)
    units = 2 * 4 * 2048 * 1024 * 2 / 1e9
    assert uncorrected.seconds / units == pytest.approx(0.0525)


def test_descriptions_may_be_mappings():
    topology = {
        "name": "flat",
        "levels": [
            {"name": "host", "count": 8, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
        ],
    }
    answer = plan(topology, GPT, 8)
    assert answer.mesh == (4, 2)
    assert answer.collectives == ("ring", "ring")
    assert sorted(answer.ranks_by_position()) == list(range(8))


@pytest.mark.parametrize(
    ("topology", "model", "world_size", "texts"),
    [
        ("flat-8.yaml", GPT, 16, ["flat-8.yaml:6: levels:", "found 8 devices", "expected 16"]),
        ("nowhere.yaml", GPT, 8, ["nowhere.yaml", "No such file"]),
        ("flat-8.yaml", {"model_type": "bert"}, 8, ["<model>:2: model_type:", '"bert"']),
        ({"levels": 3}, GPT, None, ["<topology>:2: levels:", "a list of levels"]),
        ("flat-8.yaml", GPT, 0, ["world_size"]),
    ],
)
def test_what_is_wrong_is_a_value_error_with_its_place(topology, model, world_size, texts):
    if isinstance(topology, str):
        topology = REPOSITORY / "examples" / "topologies" / topology
    with pytest.raises(ValueError) as error:
        plan(topology, model, world_size)
    for text in texts:
        assert text in str(error.value)


def test_options_are_checked():
    topology = REPOSITORY / "examples/topologies/flat-8.yaml"
    with pytest.raises(ValueError, match="mode: found"):
        plan(topology, GPT, mode="literal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="collectives: found"):
        plan(topology, GPT, collectives=["tree"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="batch: found"):
        plan(topology, GPT, batch=0)


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"element_bytes": 3}, ValueError, "element_bytes: found 3, expected 1, 2, 4 or 8"),
        ({"element_bytes": 16}, ValueError, "element_bytes: found 16"),
        (
            {"chunks": 2000},
            ValueError,
            "chunks: found 2000, expected a whole number from 1 to 1024",
        ),
        ({"device_memory_gb": float("nan")}, ValueError, "device_memory_gb: found nan"),
        ({"device_memory_gb": float("inf")}, ValueError, "device_memory_gb: found inf"),
        ({"device_memory_gb": -1}, ValueError, "device_memory_gb: found -1"),
        (
            {"device_memory_gb": "big"},
            TypeError,
            "device_memory_gb: found 'big', expected a number",
        ),
        ({"world_size": 8.0}, TypeError, "world_size: found 8.0, expected an int"),
        ({"world_size": "8"}, TypeError, "world_size: found '8', expected an int"),
        (
            {"batch": 2**31},
            ValueError,
            "batch: found 2147483648, expected a whole number from 1 to",
        ),
        ({"fused": True, "volume": "equation2"}, ValueError, "not in equation 2"),
        ({"fused": True, "mode": "paper"}, ValueError, "not in equation 2"),
        ({"volume": "half"}, ValueError, 'volume: found "half"'),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_options_are_checked_as_the_program_checks_its_flags(options, error, text):
    topology = REPOSITORY / "examples/topologies/flat-8.yaml"
    with pytest.raises(error) as raised:
        plan(topology, GPT, **options)
    assert text in str(raised.value)


def test_names_may_be_in_any_script_but_not_control_the_terminal():
    def topology(name):
        level = {"name": name, "count": 2, "kind": "switch", "bandwidth": "1 GB/s per direction"}
        return {"name": name, "levels": [level]}

    assert plan(topology("caf\u00e9 \U0001f600"), GPT).topology == "caf\u00e9 \U0001f600"
    with pytest.raises(ValueError, match="<topology>:2: name: .* without control characters"):
        plan(topology("\x1b[31m"), GPT)


def test_types_are_shipped():
    assert (importlib.resources.files("atp") / "py.typed").is_file()


def test_no_mesh_at_all_is_a_runtime_error_with_reasons():
    with pytest.raises(RuntimeError, match="does not divide the number of heads"):
        plan(REPOSITORY / "examples/topologies/flat-8.yaml", {**GPT, "n_embd": 7, "n_head": 7})


def test_torch_is_not_needed():
    code = "import sys; sys.modules['torch'] = None; import atp.planner; print('planned')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")},
    )
    assert result.stdout == "planned\n", result.stderr
