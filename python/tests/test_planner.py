"""atp.planner gives the same answers as `atp plan best --json`, and needs no torch."""

import dataclasses
import importlib.resources
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from atp.planner import Plan, core_spread, feasibility, plan

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
CLUSTERS = sorted((REPOSITORY / "examples" / "clusters").glob("*.yaml"))
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
    """A plan with the names of the program's JSON."""

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
    assert len(CLUSTERS) >= 5
    assert len(MODELS) >= 2


@pytest.mark.parametrize("mode", ["linkload", "paper"])
@pytest.mark.parametrize("model", MODELS, ids=lambda path: path.stem)
@pytest.mark.parametrize("cluster", CLUSTERS, ids=lambda path: path.stem)
def test_the_program_and_the_module_agree(cluster, model, mode):
    program = run_cli("--cluster", cluster, "--model", model, "--mode", mode, "--batch", 64)
    try:
        answer = plan(cluster, model, mode=mode, batch=64, sequence_parallel="auto")
    except RuntimeError as error:
        assert program.returncode == 1
        assert str(error) in program.stderr
        return
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == as_json(answer)


def test_every_option_reaches_the_planner():
    cluster, model = REPOSITORY / "examples/clusters/two-racks.yaml", MODELS[0]
    program = run_cli(
        *("--cluster", cluster, "--model", model, "--ranks", 16, "--batch", 8),
        *("--sequence", 512, "--element-bytes", 4, "--collectives", "ring,hierarchical"),
        *("--fused", "--count-norms", "--chunks", 2, "--device-memory", 1000),
        *("--attention-scores", "--sequence-parallel", "--by-heads", "--whole-logits"),
    )
    answer = plan(
        cluster,
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
        attention_scores=True,
        sequence_parallel=True,
        by_heads=True,
        whole_logits=True,
    )
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == as_json(answer)


def test_hosts_and_what_the_runtime_runs_reach_the_planner():
    cluster = REPOSITORY / "examples/clusters/four-equal-hosts.yaml"
    names = ["a3", "a1"]
    program = run_cli(
        *("--cluster", cluster, "--model", MODELS[0], "--hosts", ",".join(names)),
        *("--ranks-per-host", 1, "--collectives", "gloo"),
    )
    answer = plan(cluster, MODELS[0], hosts=names, ranks_per_host=1, runtime=True,
                  collectives=["gloo"])  # fmt: skip
    assert program.returncode == 0, program.stderr
    assert json.loads(program.stdout) == as_json(answer)
    assert math.prod(answer.mesh) == 2


def test_the_order_is_that_of_the_jobs_ranks():
    """Hosts in a different order than in the file: the layout follows the file, the job `hosts`."""
    answer = plan(two_racks(), GPT, hosts=["b1", "a1", "b2", "a2"], collectives=["ring"], batch=4)
    assert answer.job_ranks == (1, 3, 0, 2)  # of a1, a2, b1, b2
    devices = answer.ranks_by_position()
    assert [answer.order()[rank] for rank in answer.job_ranks] == devices


def two_racks() -> dict:
    racks = [
        {
            "name": name,
            "uplink": "core",
            "hosts": [
                {"name": f"{name}{i}", "address": f"10.0.{rack}.{i}", "ranks": 1} for i in (1, 2)
            ],
        }
        for rack, name in enumerate("ab")
    ]
    racks[0]["hosts"].append({"name": "s", "address": "10.0.9.1", "ranks": 0})
    link = {"bandwidth": "1 Gbit/s per direction", "latency": "5 us"}
    return {"links": {"host": link, "rack": link}, "racks": racks, "servers": ["s"]}


def test_collectives_may_differ_by_dimension():
    cluster = REPOSITORY / "examples/clusters/flat-8.yaml"
    answer = plan(cluster, GPT, collectives=[["gloo"], ["ring"]])
    found = {one.mesh: one.collectives for one in (answer, *answer.runners_up)}
    assert found[4, 2] == ("gloo", "ring")
    with pytest.raises(ValueError, match="or names for each of 2 dimensions"):
        plan(cluster, GPT, collectives=[["gloo"], ["ring"], ["ring"]])


def test_a_mesh_that_cannot_run_a_model_has_reasons():
    assert feasibility(GPT, (4, 2)).reasons == ()
    assert "16" in feasibility(GPT, (32, 1)).reasons[0]
    assert "3 chunks" in " ".join(feasibility(GPT, (4, 2), batch=4, chunks=3).reasons)


def test_the_core_is_shared_as_the_runtime_shares_it():
    assert core_spread(16, 16, (4, 2), 1) == "heads"
    assert core_spread(12, 12, (2, 4), 4) == "sequences"
    assert core_spread(8, 2, (2, 2), 3) == "heads with shared kv"
    assert core_spread(12, 6, (2, 2), 1) is None
    with pytest.raises(ValueError, match="d1: found 0, expected a whole number"):
        core_spread(8, 8, (0, 2), 4)


def test_a_step_is_timed_where_the_devices_speed_is_known():
    level = {"name": "host", "count": 4, "kind": "switch", "bandwidth": "1 GB/s per direction"}
    without = plan({"levels": [level]}, GPT)
    assert not without.step.is_timed
    assert without.seconds_per_step == without.step.seconds
    timed = plan({"levels": [level], "device": {"products": "1 TFLOP/s"}}, GPT)
    assert timed.step.is_timed
    assert timed.step.seconds == pytest.approx(
        timed.step.products + timed.step.others + timed.step.waited
    )


def test_the_papers_own_number_for_the_torus_can_be_had():
    torus = REPOSITORY / "examples/clusters/fig7b.yaml"
    corrected = plan(torus, GPT, mode="paper")
    assert corrected.mesh == (4, 4)
    uncorrected = plan(torus, GPT, mode="paper", point_to_point_correction=False)
    assert uncorrected.mesh == (8, 2)
    units = 2 * 4 * 2048 * 1024 * 2 / 1e9
    assert uncorrected.seconds / units == pytest.approx(0.0525)


def test_descriptions_may_be_mappings():
    cluster = {
        "name": "flat",
        "levels": [
            {"name": "host", "count": 8, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
        ],
    }
    answer = plan(cluster, GPT, 8)
    assert answer.mesh == (4, 2)
    assert answer.collectives == ("ring", "ring")
    assert sorted(answer.ranks_by_position()) == list(range(8))


LLAMA = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 160,
         "num_hidden_layers": 2, "num_attention_heads": 8, "vocab_size": 256}  # fmt: skip


def test_a_type_with_a_llamas_matrices_is_planned_as_one(tmp_path):
    cluster = REPOSITORY / "examples" / "clusters" / "flat-8.yaml"
    expected = plan(cluster, LLAMA, 8)
    assert plan(cluster, LLAMA | {"model_type": "qwen3"}, 8) == expected
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA | {"model_type": "phi3"}))
    assert plan(cluster, file, 8).mesh == expected.mesh
    with pytest.raises(ValueError, match='found "opt"'):
        plan(cluster, LLAMA | {"model_type": "opt"}, 8)


@pytest.mark.parametrize(
    ("cluster", "model", "ranks", "texts"),
    [
        ("flat-8.yaml", GPT, 16, ["flat-8.yaml:6: levels:", "found 8 devices", "expected 16"]),
        ("nowhere.yaml", GPT, 8, ["nowhere.yaml", "No such file"]),
        ("flat-8.yaml", {"model_type": "bert"}, 8, ["<model>:2: model_type:", '"bert"']),
        ({"levels": 3}, GPT, None, ["<cluster>:2: levels:", "a list of levels"]),
        ("flat-8.yaml", GPT, 0, ["ranks"]),
    ],
)
def test_a_wrong_input_is_a_value_error_with_its_place(cluster, model, ranks, texts):
    if isinstance(cluster, str):
        cluster = REPOSITORY / "examples" / "clusters" / cluster
    with pytest.raises(ValueError) as error:
        plan(cluster, model, ranks)
    for text in texts:
        assert text in str(error.value)


def test_options_are_checked():
    cluster = REPOSITORY / "examples/clusters/flat-8.yaml"
    with pytest.raises(ValueError, match="mode: found"):
        plan(cluster, GPT, mode="literal")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="collectives: found"):
        plan(cluster, GPT, collectives=["tree"])  # type: ignore[list-item]
    for mixed in ("ring", [["ring"], "ring"]):
        with pytest.raises(ValueError, match="expected names, or names for each of 2 dimensions"):
            plan(cluster, GPT, collectives=mixed)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="batch: found"):
        plan(cluster, GPT, batch=0)


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
        ({"ranks": 8.0}, TypeError, "ranks: found 8.0, expected an int"),
        ({"ranks": "8"}, TypeError, "ranks: found '8', expected an int"),
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
    cluster = REPOSITORY / "examples/clusters/flat-8.yaml"
    with pytest.raises(error) as raised:
        plan(cluster, GPT, **options)
    assert text in str(raised.value)


def test_names_may_be_in_any_script_but_not_control_the_terminal():
    def cluster(name):
        level = {"name": name, "count": 2, "kind": "switch", "bandwidth": "1 GB/s per direction"}
        return {"name": name, "levels": [level]}

    assert plan(cluster("caf\u00e9 \U0001f600"), GPT).cluster == "caf\u00e9 \U0001f600"
    with pytest.raises(ValueError, match="<cluster>:2: name: .* without control characters"):
        plan(cluster("\x1b[31m"), GPT)


def test_types_are_shipped():
    assert (importlib.resources.files("atp") / "py.typed").is_file()


def test_no_mesh_at_all_is_a_runtime_error_with_reasons():
    with pytest.raises(RuntimeError, match="does not divide the number of heads"):
        plan(REPOSITORY / "examples/clusters/flat-8.yaml", {**GPT, "n_embd": 7, "n_head": 7})


def test_torch_is_not_needed():
    code = "import sys; sys.modules['torch'] = None; import atp.planner; print('planned')"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY / "python")},
    )
    assert result.stdout == "planned\n", result.stderr


def test_a_measured_mesh_that_no_contiguous_layout_has_can_be_planned():
    """Three racks of four: four rows do not divide the racks, nor three columns the hosts."""
    levels = [
        {"name": name, "count": count, "kind": "switch", "bandwidth": f"{rate} per direction"}
        for name, count, rate in (("rack", 3, "1 Gbit/s"), ("host", 4, "10 Gbit/s"))
    ]
    fast = {"all_reduce": {"bandwidth": "100 GB/s"}}
    measured = [{"mesh": [4, 3], "algorithm": "ring", "dimension1": fast, "dimension2": fast}]
    model = {"model_type": "gpt2", "n_embd": 1152, "n_head": 12, "n_layer": 2, "vocab_size": 256}
    answer = plan({"levels": levels, "measured": measured}, model, batch=12, runtime=True)
    assert answer.mesh == (4, 3) and answer.measured
    assert sorted(answer.order()) == list(range(12))
