"""Every flag and every axis of a sweep takes effect: each answer is compared with one that was
obtained in another way."""

import csv
import io
import json

import pytest

from .test_answers import FLAT

LEVELS = """\
name: small
levels:
  - {{name: rack, count: 2, kind: switch, bandwidth: 20 Gbit/s per direction}}
  - {{name: host, count: {count}, kind: switch, bandwidth: {bandwidth} Gbit/s per direction}}
"""
LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 8,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
}
LLAMA_FLAGS = {
    "--hidden": 4096,
    "--layers": 8,
    "--heads": 32,
    "--kv-heads": 8,
    "--ffn": 14336,
    "--gated": None,
}


def answer(program, *arguments):
    return json.loads(program.output("best", *arguments, "--json"))


def flags_of(values):
    return [str(part) for pair in values.items() for part in pair if part is not None]


def without_names(plan):
    return {key: value for key, value in plan.items() if key not in ("model", "cluster")}


def test_the_models_flags_say_what_a_file_says(program):
    program.write("llama.json", json.dumps(LLAMA))
    by_file = answer(program, "--cluster", "flat-8.yaml", "--model", "llama.json")
    by_flags = answer(program, "--cluster", "flat-8.yaml", *flags_of(LLAMA_FLAGS))
    assert without_names(by_flags) == without_names(by_file)


@pytest.mark.parametrize("flag", ["--kv-heads", "--ffn", "--gated"])
def test_each_of_the_models_flags_has_an_effect(program, flag):
    fewer = {name: value for name, value in LLAMA_FLAGS.items() if name != flag}
    whole = answer(program, "--cluster", "flat-8.yaml", *flags_of(LLAMA_FLAGS))
    less = answer(program, "--cluster", "flat-8.yaml", *flags_of(fewer))
    seconds = [[runner["seconds"] for runner in one["runners_up"]] for one in (whole, less)]
    assert seconds[0] != seconds[1]


def test_a_devices_memory_is_in_gigabytes(program):
    plan = answer(program, *FLAT)
    gigabytes = plan["memory_bytes"]["total"] / 1e9
    assert answer(program, *FLAT, "--device-memory", gigabytes * 1.001)["mesh"] == plan["mesh"]
    # The same mesh may run with less if it splits the tokens.
    tighter = answer(program, *FLAT, "--device-memory", gigabytes * 0.999)
    assert tighter["memory_bytes"]["total"] <= gigabytes * 0.999e9
    assert tighter["rejected"] or tighter["seconds_per_step"] > plan["seconds_per_step"]


def test_the_csv_says_what_the_json_says(program):
    plan = answer(program, *FLAT)
    rows = list(csv.DictReader(io.StringIO(program.output("best", *FLAT, "--csv"))))
    for row, candidate in zip(rows, [plan, *plan["runners_up"]], strict=True):
        assert [int(row["d1"]), int(row["d2"])] == candidate["mesh"]
        assert float(row["seconds"]) == candidate["seconds"]
        assert float(row["memory_bytes"]) == candidate["memory_bytes"]["total"]


def test_a_sweep_varies_the_level_that_it_names(program):
    model = ("--hidden", 1024, "--layers", 2, "--heads", 16)
    program.write("cluster.yaml", LEVELS.format(count=4, bandwidth=10))
    axes = ("--count", "host=2,4,8", "--bandwidth", "host=0.5,1,4")
    text = program.output("sweep", "--cluster", "cluster.yaml", *model, *axes, "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 9
    for row in rows:
        bandwidth = 10 * float(row["bandwidth_factor"])
        program.write("one.yaml", LEVELS.format(count=row["count"], bandwidth=bandwidth))
        plan = answer(program, "--cluster", "one.yaml", *model)
        assert [int(row["d1"]), int(row["d2"])] == plan["mesh"]
        assert float(row["seconds"]) == pytest.approx(plan["seconds_per_step"], rel=1e-12)


def test_all_meshes_are_listed_however_many_there_are(program):
    model = ("--hidden", 65536, "--layers", 2, "--heads", 1024, "--batch", 1024)
    plan = answer(program, "--cluster", "pods-1024.yaml", *model)
    meshes = [plan["mesh"], *(runner["mesh"] for runner in plan["runners_up"])]
    assert sorted(mesh[0] for mesh in meshes) == [2**i for i in range(11)]
    assert plan["rejected"] == []


def test_a_layout_that_is_not_contiguous_is_part_of_the_answer(program):
    # The uplinks of the racks are fast, the ring inside them is slow.
    program.write(
        "cluster.yaml",
        "levels:\n"
        "  - {name: rack, count: 2, kind: switch, bandwidth: 1600 Gbit/s per direction}\n"
        "  - {name: host, count: 4, kind: ring, bandwidth: 10 Gbit/s per direction}\n",
    )
    model = ("--hidden", 1024, "--layers", 2, "--heads", 16)
    text = program.output("best", "--cluster", "cluster.yaml", *model)
    plan = answer(program, "--cluster", "cluster.yaml", *model)
    assert plan["layout"] == [[1, 2], [4, 1]]
    assert "not in the order of the devices" in text
    assert "'rack' 1 x 2, 'host' 4 x 1" in text
    assert "Rank of each device: 0 2 4 6 1 3 5 7." in text
    assert "not in the order" not in program.output("best", *FLAT)


def test_every_reason_against_a_mesh_is_printed(program):
    flags = ("--hidden", 1200, "--layers", 2, "--heads", 12, "--ffn", 1202, "--batch", 4)
    text = program.output("best", "--cluster", "flat-8.yaml", *flags)
    line = next(line for line in text.splitlines() if line.startswith("  (8,1)"))
    assert "d1 = 8 does not divide the number of heads 12" in line
    assert "d1 = 8 does not divide the feed-forward width 1202" in line
    assert "d1 = 8 does not divide the number of key-value heads" not in text


def test_the_papers_own_number_for_the_torus_can_be_had(program):
    model = ("--hidden", 1024, "--layers", 1, "--heads", 16, "--batch", 16)
    paper = ("--cluster", "fig7b.yaml", *model, "--mode", "paper")

    def units(*flags):
        output = program.output("explain", *paper, *flags, "--mesh", "8,2", "--json")
        return json.loads(output)["seconds"] * 1e9 / (2 * 16 * 2048 * 1024 * 2)

    assert units() == pytest.approx(0.07)
    assert units("--uncorrected") == pytest.approx(0.0525)
    assert units("--literal") == pytest.approx(0.105)


def test_the_best_mesh_is_not_explained_twice(program):
    text = program.output("explain", *FLAT, "--mesh", "8,1")
    assert text.count("Mesh (8,1)") == 1
    assert text.endswith("This is the best mesh.\n")
    assert "The best mesh is\nMesh (8,1)" in program.output("explain", *FLAT, "--mesh", "4,2")


def test_one_device_is_singular_and_a_name_is_not_needed(program):
    program.write(
        "one.yaml",
        "levels: [{name: gpu, count: 1, kind: switch, bandwidth: 1 GB/s per direction}]\n",
    )
    text = program.output(
        "best", "--cluster", "one.yaml", "--hidden", 64, "--layers", 1, "--heads", 1
    )
    assert text.startswith("1 device\nmodel of width 64: 1 layer of width 64;")
    assert "for 1 layer.\n" in text
