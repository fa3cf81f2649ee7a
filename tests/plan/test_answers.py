"""What `atp plan` answers about the shipped machines and models."""

import csv
import io
import json
import os
from pathlib import Path

import pytest

GOLDEN = Path(__file__).parent / "golden"
FLAT = ("--cluster", "flat-8.yaml", "--model", "gpt2-medium.json")

# Users see any change of these texts: ATP_UPDATE_GOLDEN=1 rewrites them, for review.
GOLDEN_RUNS = {
    "best-pcie-8": ("best", "--cluster", "pcie-8.yaml", "--model", "gpt2-medium.json"),
    "best-nvswitch-8": ("best", "--cluster", "nvswitch-8.yaml", "--model", "llama-3-8b.json"),
    "best-nvlink-pairs-8": (
        *("best", "--cluster", "nvlink-pairs-8.yaml"),
        *("--model", "gpt3-175b.json", "--mode", "paper"),
    ),
    "best-two-nvlink-boxes": (
        *("best", "--cluster", "two-nvlink-boxes.yaml", "--model", "llama-3-70b.json"),
    ),
    "best-flat-8": ("best", *FLAT, "--ranks", "8"),
    "best-flat-8-rings": ("best", *FLAT, "--collectives", "ring"),
    "best-two-racks": ("best", "--cluster", "two-racks.yaml", "--model", "gpt3-175b.json"),
    "best-ic1-measured": ("best", "--cluster", "ic1-measured.yaml", "--model", "gpt3-175b.json"),
    "explain-two-racks": (
        *("explain", "--cluster", "two-racks.yaml", "--model", "gpt3-175b.json"),
        *("--mesh", "4,4"),
    ),
    "matrix-fig7a": ("matrix", "--cluster", "fig7a.yaml"),
    "matrix-fig7b": ("matrix", "--cluster", "fig7b.yaml"),
    "aggregation-four-equal-hosts": ("aggregation", "--cluster", "four-equal-hosts.yaml"),
    "aggregation-two-racks": ("aggregation", "--cluster", "two-racks-and-servers.yaml"),
    "sweep-flat-8": (
        *("sweep", "--cluster", "flat-8.yaml", "--model", "gpt3-175b.json"),
        *("--element-bytes", "4"),
    ),
    # Where aggregation wins, in numbers: hosts by bandwidth of the network.
    "grid-flat-8": (
        *("sweep", *FLAT, "--csv"),
        *("--count", "host=2,4,8,16", "--bandwidth", "host=0.25,0.5,1,2,4"),
    ),
}


@pytest.mark.parametrize("name", GOLDEN_RUNS)
def test_the_text_is_the_golden_one(program, name):
    output = program.output(*GOLDEN_RUNS[name])
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("ATP_UPDATE_GOLDEN"):
        path.write_text(output)
    assert output == path.read_text()


def test_the_json_has_mesh_collectives_seconds_and_runners_up(program):
    answer = json.loads(program.output("best", *FLAT, "--ranks", 8, "--json"))
    assert answer["mesh"] == [8, 1]
    assert answer["collectives"] == ["innetwork", "none"]
    # 4 all-reduces of 4 x 2048 x 1024 floats with 114 bytes of header for 1400, at 12.5 GB/s, and
    # 4 x 4 latencies of 10 us.
    bandwidth = 4 * 4 * 2048 * 1024 * 4 * 1514 / 1400 / 12.5e9
    assert answer["seconds"] == pytest.approx(bandwidth + 160e-6)
    ends = answer["ends"]["seconds"]  # embedding, head and loss
    assert answer["seconds_per_step"] == pytest.approx(24 * answer["seconds"] + ends)
    assert ends > 0
    assert answer["use_one_dimensional"] is True
    meshes = [runner["mesh"] for runner in answer["runners_up"]]
    assert meshes[0] == [4, 2]
    assert answer["runners_up"][0]["collectives"] == ["ring", "ring"]
    costs = [answer["seconds"], *(runner["seconds"] for runner in answer["runners_up"])]
    assert costs == sorted(costs)


def test_rings_and_aggregation_choose_different_meshes_on_the_flat_network_of_8(program):
    ring = json.loads(program.output("best", *FLAT, "--collectives", "ring", "--json"))
    assert ring["mesh"] == [4, 2]
    assert ring["collectives"] == ["ring", "ring"]
    aggregation = json.loads(program.output("best", *FLAT, "--json"))
    assert aggregation["mesh"] == [8, 1]
    assert aggregation["seconds"] < ring["seconds"]


def test_plain_1_d_is_named_when_it_is_best(program):
    assert "Use plain 1-D tensor parallelism: mesh (8,1)" in program.output("best", *FLAT)
    other = program.output("best", *FLAT, "--collectives", "ring")
    assert "Use mesh (4,2)" in other
    assert "Plain 1-D, mesh (8,1), would take" in other


def test_bottleneck_and_what_would_change_the_answer_are_named(program):
    text = program.output("best", *FLAT)
    assert "Bottleneck, on dimension 1: the link of a server's host" in text
    assert "if the switches of 'host' did not aggregate, mesh (4,2) would be best" in text


def test_the_csv_has_every_mesh(program):
    rows = list(csv.DictReader(io.StringIO(program.output("best", *FLAT, "--csv"))))
    assert [(row["d1"], row["d2"]) for row in rows][0] == ("8", "1")
    assert {(int(row["d1"]) * int(row["d2"])) for row in rows} == {8}
    assert float(rows[0]["seconds"]) > 0


def test_impossible_meshes_have_their_reasons(program):
    flags = ("--hidden", 1200, "--layers", 2, "--heads", 12)
    text = program.output("best", "--cluster", "flat-8.yaml", *flags)
    assert "impossible: d1 = 8 does not divide the number of heads 12" in text


def test_the_literal_equations_choose_1_d_on_a_flat_switch(program):
    paper = json.loads(program.output("best", *FLAT, "--mode", "paper", "--json"))
    assert paper["mesh"] == [4, 2]
    literal = json.loads(program.output("best", *FLAT, "--mode", "paper", "--literal", "--json"))
    assert literal["mesh"] == [8, 1]


def test_a_sweep_as_csv_has_both_answers(program):
    text = program.output("sweep", *FLAT, "--count", "host=2,8", "--csv")
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["devices"] for row in rows] == ["2", "8"]
    eight = rows[1]
    assert (eight["d1"], eight["d2"]) == ("4", "2")
    assert (eight["innetwork_d1"], eight["innetwork_d2"]) == ("8", "1")
