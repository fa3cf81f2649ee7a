"""init_mesh("auto") runs what the planner chose, where the planner put it."""

import json

from atp.planner import plan
from atp.tensor_parallel import init_mesh

from .test_bad_input import errors

MODEL = {"model_type": "gpt2", "n_embd": 1024, "n_head": 16, "n_layer": 2, "vocab_size": 256}


def flat(aggregation: str = "") -> str:
    return (
        "levels:\n  - {name: host, count: 8, kind: switch, bandwidth: 100 Gbit/s per direction"
        f"{aggregation}}}\n"
    )


# Dimension 2 runs across the racks, so devices are not in the order of the ranks.
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


def test_it_makes_the_mesh_that_the_planner_says(gloo_ranks, tmp_path):
    """On a flat network of 8: (4,2) of rings, (8,1) of in-network aggregation."""
    (tmp_path / "rings.yaml").write_text(flat())
    (tmp_path / "switch.yaml").write_text(flat(", aggregation: {wire_bytes_per_value: 4}"))
    (tmp_path / "config.json").write_text(json.dumps(MODEL))

    def body(_rank):
        model = tmp_path / "config.json"
        found = []
        for topology in ("rings.yaml", "switch.yaml"):
            mesh = init_mesh("auto", topology=tmp_path / topology, model=model, element_bytes=4,
                             algorithm="gloo")  # fmt: skip
            found.append((mesh.shape, mesh.plan.collectives))
        return found

    expected = [((4, 2), ("ring", "ring")), ((8, 1), ("aggregation", "none"))]
    assert gloo_ranks.run(8, body, backend="gloo") == [expected] * 8


def test_it_takes_the_planners_algorithms(gloo_ranks, tmp_path):
    (tmp_path / "rings.yaml").write_text(flat())

    def body(_rank):
        mesh = init_mesh("auto", topology=tmp_path / "rings.yaml", model=MODEL)
        return mesh.first.algorithm, mesh.second.algorithm, mesh.second.fused

    assert gloo_ranks.run(8, body, backend="gloo") == [("ring", "ring", True)] * 8


def test_ranks_are_where_they_are_put(gloo_ranks):
    """Two replicas of a mesh whose devices are not in the order of its ranks."""
    order = [1, 2, 0, 3]  # device 0 is rank 1, in row 0 and column 1

    def body(_rank):
        mesh = init_mesh(2, 2, data_parallel=2, order=order)
        return mesh.row, mesh.column, mesh.data.index, mesh.device_mesh.mesh.tolist()

    found = gloo_ranks.run(8, body, backend="gloo")
    assert [one[:3] for one in found[:4]] == [(0, 1, 0), (1, 0, 0), (0, 0, 0), (1, 1, 0)]
    assert [one[:3] for one in found[4:]] == [(0, 1, 1), (1, 0, 1), (0, 0, 1), (1, 1, 1)]
    assert found[0][3] == [[[2, 0], [1, 3]], [[6, 4], [5, 7]]]


def test_the_planners_order_is_the_meshs(gloo_ranks):
    answer = plan(CROSSED, MODEL, 8, collectives=["ring"])
    assert answer.ranks_by_position() != list(range(8))

    def body(_rank):
        mesh = init_mesh("auto", topology=CROSSED, model=MODEL, collectives=["ring"])
        return mesh.row * mesh.shape[1] + mesh.column, mesh.shape

    found = gloo_ranks.run(8, body, backend="gloo")
    assert [rank for rank, _ in found] == answer.ranks_by_position()
    assert found[0][1] == answer.mesh


def test_an_order_that_is_given_goes_before_the_planners(gloo_ranks):
    order = [7, 6, 5, 4, 3, 2, 1, 0]

    def body(_rank):
        mesh = init_mesh("auto", topology=CROSSED, model=MODEL, collectives=["ring"], order=order)
        return mesh.row * mesh.shape[1] + mesh.column

    assert gloo_ranks.run(8, body, backend="gloo") == order


def test_what_the_planner_refuses_is_refused_at_every_rank(gloo_ranks, tmp_path):
    (tmp_path / "rings.yaml").write_text(flat())

    def body(rank):
        init_mesh("auto", topology=tmp_path / "rings.yaml", model={**MODEL, "n_head": 15})

    for error in errors(gloo_ranks, 8, body):
        assert "n_head" in error
