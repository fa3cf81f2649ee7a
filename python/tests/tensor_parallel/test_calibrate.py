"""Calibration writes measurements into the cluster file, and compares them to predictions."""

import dataclasses

import pytest

from atp.planner import plan
from atp.tensor_parallel import init_mesh
from atp.tensor_parallel.calibrate import _config, calibrate, compare, table
from atp.tensor_parallel.measured_file import (
    Device,
    Measurements,
    Rate,
    require_cluster,
    with_measurements,
    write_measurements,
)
from atp.tensor_parallel.replay import Replay

LEVELS = """\
name: two racks   # of one host
levels:
  - {name: rack, count: 2, kind: switch, bandwidth: 1 Gbit/s per direction}
  - {name: host, count: 2, kind: switch, bandwidth: 1 Gbit/s per direction}
"""
OLD = """\
measured:
  - {mesh: [4, 1], dimension1: 1 GB/s}

  - mesh: [1, 4]
    dimension2: 1 GB/s
"""
AFTER = """\
# not written by calibrate
point_to_point: {unit: GB/s per direction, rows: []}
"""
FOUND = Measurements(
    "ring",
    {
        (4, 1): ({"all_reduce": Rate(2e9, 0)}, None),
        (2, 2): (
            {"all_reduce": Rate(1.5e9, 5e-6)},
            {"all_reduce": Rate(5e8, 1e-3), "all_gather": Rate(1e9, 2e-4)},
        ),
    },
)
WRITTEN = """\
measured:  # by atp plan calibrate
  - {mesh: [4, 1], algorithm: ring, dimension1: {all_reduce: {bandwidth: 2000 MB/s, latency: 0.0 us}}}
  - {mesh: [2, 2], algorithm: ring, dimension1: {all_reduce: {bandwidth: 1500 MB/s, latency: 5.0 us}}, \
dimension2: {all_reduce: {bandwidth: 500 MB/s, latency: 1000.0 us}, all_gather: {bandwidth: 1000 MB/s, latency: 200.0 us}}}
"""  # noqa: E501
MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 8, "n_layer": 1, "vocab_size": 256}


@pytest.mark.parametrize(
    ("before", "rest"),
    {
        "where there were none": (LEVELS, LEVELS),
        "in place of others at the end": (LEVELS + OLD, LEVELS),
        "in place of others in the middle": (LEVELS + OLD + AFTER, LEVELS + AFTER),
        "in place of a line": (LEVELS + "measured: []\n" + AFTER, LEVELS + AFTER),
        "after a file without a newline at its end": (LEVELS.rstrip(), LEVELS),
    }.values(),
)
def test_measurements_are_written(before, rest):
    assert with_measurements(before, FOUND) == rest + WRITTEN


def test_measurements_of_another_algorithm_stay():
    switches = dataclasses.replace(FOUND, algorithm="innetwork")
    both = with_measurements(with_measurements(LEVELS, FOUND), switches)
    assert both.count("algorithm: ring") == both.count("algorithm: innetwork") == 2
    assert with_measurements(both, switches) == both
    assert both.count("measured:") == 1


BLOCKS = """\
measured:
- mesh: [4, 1]  # by hand
  # algorithm: ring
  algorithm: "gloo"

  dimension1: 1 GB/s
- mesh: [4, 1]
  algorithm: ring
  dimension1: 1 GB/s
- {mesh: [2, 2], dimension1: 1 GB/s,
   algorithm: innetwork, dimension2: 1 GB/s}
"""
KEPT = """\
measured:  # by atp plan calibrate
  - mesh: [4, 1]  # by hand
    # algorithm: ring
    algorithm: "gloo"
    dimension1: 1 GB/s
  - {mesh: [2, 2], dimension1: 1 GB/s,
     algorithm: innetwork, dimension2: 1 GB/s}
"""


@pytest.mark.parametrize("indentation", ["", "      "])
def test_measurements_of_other_algorithms_stay_however_they_are_written(tmp_path, indentation):
    head, *lines = BLOCKS.splitlines(keepends=True)
    blocks = head + "".join(indentation + line if line.strip() else line for line in lines)
    written = with_measurements(LEVELS + blocks + AFTER, FOUND)
    assert written == LEVELS + AFTER + KEPT + WRITTEN.split("\n", 1)[1]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS + blocks)
    require_cluster(cluster, 4)
    write_measurements(cluster, FOUND)
    assert plan(cluster, MODEL, 4, collectives=["gloo"]).collectives == ("gloo", "none")


def test_measurements_in_one_line_are_refused_before_anything_is_measured(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    line = "measured: [{mesh: [4, 1], algorithm: gloo, dimension1: 1 GB/s}]\n"
    cluster.write_text(LEVELS + line)
    with pytest.raises(ValueError, match="expected each to start a line of its own"):
        require_cluster(cluster, 4)
    assert cluster.read_text() == LEVELS + line


def test_a_device_replaces_the_earlier_one(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS)
    for speed in (1e12, 2e12):
        write_measurements(cluster, dataclasses.replace(FOUND, device=Device(speed, 1e10)))
    assert "device: {products: 2000 GFLOP/s, memory: 10000 MB/s}" in cluster.read_text()
    assert cluster.read_text().count("device:") == 1
    assert plan(cluster, MODEL, 4).step.is_timed


def test_the_planner_counts_each_collective_with_its_latency(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS)
    write_measurements(cluster, FOUND)
    answer = plan(cluster, MODEL, 4, batch=4, sequence=8, element_bytes=4, runtime=True)
    found = {one.mesh: one for one in (answer, *answer.runners_up)}
    assert found[4, 1].collectives == ("ring", "none")
    assert found[4, 1].seconds == pytest.approx(4 * 4 * 32 * 32 * 4 / 4 / 2e9)
    # Two all-reduces on dimension 2, two reduce-scatters at half of their price, two all-gathers.
    assert found[2, 2].dimensions[1].latency_seconds == pytest.approx(
        2 * 1e-3 + 2 * 0.5e-3 + 2 * 2e-4
    )


def test_comments_in_any_encoding_stay(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    comment = b"# B\xfcro\n"
    cluster.write_bytes(comment + LEVELS.encode() + OLD.encode())
    write_measurements(cluster, FOUND)
    assert cluster.read_bytes() == comment + (LEVELS + WRITTEN).encode()


def test_the_planner_uses_the_measurements(gloo_ranks, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS + OLD)

    def body(_rank):
        return calibrate(4, "gloo", megabytes=0.1, rounds=2)

    found = gloo_ranks.run(4, body, backend="gloo")
    assert all(one == found[0] for one in found)
    assert list(found[0].meshes) == [(4, 1), (2, 2), (1, 4)]
    write_measurements(cluster, found[0])
    answer = plan(cluster, MODEL, 4)
    assert all(candidate.measured for candidate in (answer, *answer.runners_up))
    assert set(answer.collectives) <= {"gloo", "none"}


def test_a_layer_is_measured_and_compared_to_its_prediction(gloo_ranks, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS)

    def body(_rank):
        return compare(cluster, MODEL, "gloo", batch=4, sequence=8, rounds=3)

    found = gloo_ranks.run(4, body, backend="gloo")
    assert all(one == found[0] for one in found)
    assert {one.mesh for one in found[0]} == {(4, 1), (2, 2), (1, 4)}
    assert all(len(one.measured) == 3 and one.median > 0 for one in found[0])
    assert [one.predicted for one in found[0]] == sorted(one.predicted for one in found[0])
    assert len(table(found[0]).splitlines()) == 4


LLAMA = {"model_type": "llama", "hidden_size": 64, "num_attention_heads": 8,
         "num_hidden_layers": 1, "intermediate_size": 96, "vocab_size": 256}  # fmt: skip


@pytest.mark.parametrize(
    "heads",
    [
        {"num_key_value_heads": 4},
        {"num_key_value_heads": 1},  # rows hold copies of it, whose gradients are summed
        {"num_key_value_heads": 4, "head_dim": 16},
    ],
    ids=str,
)
def test_a_replay_sends_the_bytes_that_the_planner_counts(gloo_ranks, heads):
    model = LLAMA | heads
    host = {"name": "host", "count": 4, "kind": "switch", "bandwidth": "1 Gbit/s per direction"}
    answer = plan({"levels": [host]}, model, 4, batch=4, sequence=8, element_bytes=4,
                  collectives=["gloo"], runtime=True)  # fmt: skip
    planned = {
        one.mesh: tuple(dimension.bytes for dimension in one.dimensions)
        for one in (answer, *answer.runners_up)
    }

    def body(_rank):
        sent = {}
        for shape in planned:
            mesh = init_mesh(*shape, algorithm="gloo")
            Replay(_config(model), mesh, 4, 8).seconds()
            sent[shape] = mesh.first.traffic.total(), mesh.second.traffic.total()
            mesh.close()
        return sent

    assert gloo_ranks.run(4, body, backend="gloo") == [planned] * 4
