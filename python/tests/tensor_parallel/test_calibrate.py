"""Measurements get into the cluster file, and predictions beside measurements."""

import pytest

from atp.planner import plan
from atp.tensor_parallel.calibrate import calibrate, compare, table
from atp.tensor_parallel.measured_file import with_measurements, write_measurements

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
# what follows is not ours
point_to_point: {unit: GB/s per direction, rows: []}
"""
FOUND = {(4, 1): (2e9, None), (2, 2): (1.5e9, 0.5e9)}
WRITTEN = """\
measured:  # by atp plan calibrate
  - {mesh: [4, 1], dimension1: 2000 MB/s}
  - {mesh: [2, 2], dimension1: 1500 MB/s, dimension2: 500 MB/s}
"""
MODEL = {"model_type": "gpt2", "n_embd": 32, "n_head": 8, "n_layer": 1, "vocab_size": 256}


@pytest.mark.parametrize(
    ("before", "rest"),
    {
        "where there were none": (LEVELS, LEVELS),
        "in place of others at the end": (LEVELS + OLD, LEVELS),
        "in place of others in the middle": (LEVELS + OLD + AFTER, LEVELS + AFTER),
        "in place of a line": (LEVELS + "measured: []\n" + AFTER, LEVELS + AFTER),
        "after a file that ends in no line": (LEVELS.rstrip(), LEVELS),
    }.values(),
)
def test_measurements_are_written(before, rest):
    assert with_measurements(before, FOUND) == rest + WRITTEN


def test_comments_in_any_encoding_stay(tmp_path):
    cluster = tmp_path / "cluster.yaml"
    comment = b"# B\xfcro\n"
    cluster.write_bytes(comment + LEVELS.encode() + OLD.encode())
    write_measurements(cluster, FOUND)
    assert cluster.read_bytes() == comment + (LEVELS + WRITTEN).encode()


def test_the_planner_takes_what_was_measured(gloo_ranks, tmp_path):
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(LEVELS + OLD)

    def body(_rank):
        return calibrate(4, "gloo", megabytes=0.1, rounds=2)

    found = gloo_ranks.run(4, body, backend="gloo")
    assert all(one == found[0] for one in found)
    assert list(found[0]) == [(4, 1), (2, 2), (1, 4)]
    write_measurements(cluster, found[0])
    answer = plan(cluster, MODEL, 4)
    assert all(candidate.measured for candidate in (answer, *answer.runners_up))


def test_a_layer_is_measured_beside_its_prediction(gloo_ranks, tmp_path):
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
