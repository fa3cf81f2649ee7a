"""init_mesh("auto") runs the planner's mesh and algorithms on the planner's placement."""

import json

import pytest
import torch

from atp.planner import plan
from atp.tensor_parallel import init_mesh
from atp.tensor_parallel.request import request_of

from .test_bad_input import errors

MODEL = {"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 2, "vocab_size": 256}


def flat(**more) -> dict:
    host = {"name": "host", "count": 8, "kind": "switch"}
    return {"levels": [host | {"bandwidth": "100 Gbit/s per direction"} | more]}


# Dimension 2 spans the racks, so devices are not in the order of the ranks.
CROSSED = {
    "levels": [
        {"name": name, "count": 2, "kind": kind, "bandwidth": f"{gbit} Gbit/s per direction"}
        for name, kind, gbit in (
            ("rack", "switch", 400),
            ("host", "pairs", 10),
            ("gpu", "switch", 400),
        )
    ]
}


TWO_RACKS = {  # a hierarchical all-reduce would be best here, but is not implemented
    "levels": [
        {"name": name, "count": 2, "kind": "switch", "bandwidth": f"{mbit} Mbit/s per direction"}
        for name, mbit in (("rack", 400), ("host", 2000))
    ]
}
RINGS, SWITCH = flat(), flat(aggregation={"wire_bytes_per_value": 4})
FLOAT32 = {"dtype": torch.float32}
PLANNED = {
    "rings": ((RINGS, FLOAT32), (4, 2), ("ring", "ring")),
    "switches": ((SWITCH, FLOAT32), (8, 1), ("innetwork", "gloo")),
    "switches that may not be used": (
        (SWITCH, FLOAT32 | {"algorithm": "ring"}), (4, 2), ("ring", "ring")),
    "Gloo despite switches": ((SWITCH, FLOAT32 | {"algorithm": "gloo"}), (4, 2), ("gloo", "gloo")),
    "two racks": ((TWO_RACKS, FLOAT32), (2, 2), ("ring", "ring")),
    "half precision, which rings send as float32": (
        (SWITCH, {"dtype": torch.bfloat16}), (8, 1), ("innetwork", "gloo")),
    "a ring where switches may not be used on dimension 1": (
        (SWITCH, FLOAT32 | {"algorithm": ("ring", "innetwork")}), (4, 2), ("ring", "innetwork")),
}  # fmt: skip


@pytest.mark.parametrize("case", PLANNED)
def test_auto_plans_only_what_can_run(gloo_ranks, case):
    (cluster, arguments), shape, algorithms = PLANNED[case]
    size = shape[0] * shape[1]

    def body(_rank):
        asked = {"algorithm": None, "fused": None, "dtype": None} | arguments
        found = request_of(
            "auto", None, cluster, MODEL, 1, None, asked["algorithm"], "gloo", asked["fused"],
            False, asked["dtype"], {},
        )  # fmt: skip
        scatters = {dimension.reduce_scatter for dimension in found.plan.dimensions} - {"none"}
        return found.shape, found.algorithms[1:], found.plan.mesh, scatters

    # Rings reduce-scatter on dimension 2, as at run time; Gloo and switches do not.
    expected = shape, algorithms, shape, {"ring"} if algorithms[1] == "ring" else set()
    assert gloo_ranks.run(size, body, backend="gloo") == [expected] * size


def test_auto_runs_the_best_measured_algorithm(gloo_ranks):
    """The best of the measured algorithms; a ring if the file does not name one."""
    line = {"mesh": [8, 1], "dimension1": "9 GB/s"}
    gloo = flat(bandwidth="1 Gbit/s per direction") | {"measured": [line | {"algorithm": "gloo"}]}
    unnamed = gloo | {"measured": [line]}

    def body(_rank):
        found = []
        for cluster, algorithm in ((gloo, "gloo"), (gloo, None), (unnamed, None)):
            asked = "auto", None, cluster, MODEL, 1, None, algorithm, "gloo", None, False, None, {}
            request = request_of(*asked)
            found.append((request.shape, request.algorithms[1:], request.plan.measured))
        return found

    expected = [
        ((8, 1), ("gloo", "gloo"), True),
        ((4, 2), ("ring", "ring"), False),
        ((8, 1), ("ring", "gloo"), True),
    ]
    assert gloo_ranks.run(8, body, backend="gloo") == [expected] * 8


def test_a_model_of_transformers_gets_no_mesh_that_spreads_sequences(gloo_ranks, tmp_path):
    """Two heads on four ranks: some ranks would need sequences instead, which its attention cannot
    split."""
    model = {"model_type": "gpt2", "n_embd": 64, "n_head": 2, "n_layer": 2, "vocab_size": 256}
    theirs = model | {"transformers_version": "5.23.0"}
    (tmp_path / "config.json").write_text(json.dumps(theirs))
    rings = {"levels": [flat()["levels"][0] | {"count": 4}]}

    def body(_rank):
        found = []
        for one in (model, theirs | {"n_head": 4}, theirs, tmp_path / "config.json"):
            asked = (
                "auto",
                None,
                rings,
                one,
                1,
                None,
                "ring",
                "gloo",
                None,
                False,
                None,
                {"batch": 4},
            )
            try:
                plan = request_of(*asked).plan
                found.append({each.mesh for each in (plan, *plan.runners_up)})
            except RuntimeError as error:
                found.append(str(error))
        return found

    for ours, by_heads, refused, refused_file in gloo_ranks.run(4, body, backend="gloo"):
        assert ours == {(2, 2), (1, 4)}
        assert by_heads == {(4, 1), (2, 2), (1, 4)}
        assert "attention splits by heads only (by_heads)" in refused
        assert refused_file == refused


def test_auto_uses_the_planners_algorithms(gloo_ranks, tmp_path):
    (tmp_path / "rings.yaml").write_text(json.dumps(flat()))

    def body(_rank):
        mesh = init_mesh("auto", cluster=tmp_path / "rings.yaml", model=MODEL)
        return mesh.first.algorithm, mesh.second.algorithm, mesh.second.fused

    assert gloo_ranks.run(8, body, backend="gloo") == [("ring", "ring", True)] * 8


# Sums of a whole batch between the racks take longer than those of all gradients.
SLOW_BETWEEN = {
    "levels": [
        {
            "name": name,
            "count": count,
            "kind": "switch",
            "bandwidth": f"{mbit} Mbit/s per direction",
        }
        for name, count, mbit in (("rack", 2, 10), ("host", 4, 1000))
    ]
}


def test_auto_chooses_the_number_of_replicas(gloo_ranks):
    small = MODEL | {"n_embd": 64}
    answer = plan(SLOW_BETWEEN, small, 8, batch=2, data_parallel="auto", runtime=True)
    assert answer.data.replicas == 2, "one for each sequence"

    def body(_rank):
        asked = {"cluster": SLOW_BETWEEN, "model": small, "dtype": torch.float32}
        found = []
        for data_parallel, batch in (("auto", 2), (4, 4), (1, 2)):
            mesh = init_mesh("auto", data_parallel=data_parallel, batch=batch, **asked)
            sizes = mesh.data.size, mesh.first.size * mesh.second.size
            found.append((sizes, mesh.data.algorithm, mesh.data.index))
            mesh.close()
        return found

    for rank, (chosen, given, one) in enumerate(gloo_ranks.run(8, body, backend="gloo")):
        assert chosen == ((2, 4), "ring", rank // 4)
        assert given == ((4, 2), "ring", rank // 2)
        assert one == ((1, 8), "gloo", 0)


def test_a_cluster_of_one_replica_is_planned_for_each(gloo_ranks):
    replica = {"levels": [flat()["levels"][0] | {"count": 4}]}

    def body(_rank):
        mesh = init_mesh("auto", cluster=replica, model=MODEL, data_parallel=2)
        return mesh.data.size, mesh.first.size * mesh.second.size, mesh.data.algorithm

    assert gloo_ranks.run(8, body, backend="gloo") == [(2, 4, "gloo")] * 8


def test_order_places_the_ranks(gloo_ranks):
    """Two replicas of a mesh whose devices are not in the order of its ranks."""
    order = [1, 2, 0, 3]  # device 0 is rank 1, in row 0 and column 1

    def body(_rank):
        mesh = init_mesh(2, 2, data_parallel=2, order=order)
        return mesh.row, mesh.column, mesh.data.index, mesh.device_mesh.mesh.tolist()

    found = gloo_ranks.run(8, body, backend="gloo")
    assert [one[:3] for one in found[:4]] == [(0, 1, 0), (1, 0, 0), (0, 0, 0), (1, 1, 0)]
    assert [one[:3] for one in found[4:]] == [(0, 1, 1), (1, 0, 1), (0, 0, 1), (1, 1, 1)]
    assert found[0][3] == [[[2, 0], [1, 3]], [[6, 4], [5, 7]]]


def test_the_mesh_uses_the_planners_order(gloo_ranks):
    answer = plan(CROSSED, MODEL, 8, collectives=["ring"])
    assert answer.ranks_by_position() != list(range(8))

    def body(_rank):
        mesh = init_mesh("auto", cluster=CROSSED, model=MODEL, collectives=["ring"])
        return mesh.row * mesh.shape[1] + mesh.column, mesh.shape

    found = gloo_ranks.run(8, body, backend="gloo")
    assert [rank for rank, _ in found] == answer.ranks_by_position()
    assert found[0][1] == answer.mesh


def test_a_given_order_overrides_the_planners(gloo_ranks):
    order = [7, 6, 5, 4, 3, 2, 1, 0]

    def body(_rank):
        mesh = init_mesh("auto", cluster=CROSSED, model=MODEL, collectives=["ring"], order=order)
        return mesh.row * mesh.shape[1] + mesh.column

    assert gloo_ranks.run(8, body, backend="gloo") == order


def test_a_refusal_of_the_planner_reaches_every_rank(gloo_ranks, tmp_path):
    (tmp_path / "rings.yaml").write_text(json.dumps(flat()))

    def body(rank):
        init_mesh("auto", cluster=tmp_path / "rings.yaml", model={**MODEL, "n_head": 15})

    for error in errors(gloo_ranks, 8, body):
        assert "n_head" in error
