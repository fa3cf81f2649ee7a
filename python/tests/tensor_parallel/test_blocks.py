"""A block on every mesh of 2, 4 and 8 ranks computes the same as unsharded."""

import itertools

import pytest
import torch

import atp.torch  # noqa: F401 (the ring)
from atp.planner import core_spread
from atp.tensor_parallel import attention, init_mesh, parallelize

from .comparing import (
    CONFIGS,
    GPT,
    HIDDEN,
    MESHES,
    assert_copies_are_equal,
    make_block,
    outcome_of,
    results_on,
    whole_results,
)

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}
# (algorithm, chunks, fused, dtype): a fused mesh uses reduce-scatter where it needs only a slice.
# Gloo is ten times slower here than our ring, so the ring gets more cases.
WAYS = [
    ("gloo", 1, False, torch.float64),
    ("gloo", 2, True, torch.float32),
    ("ring", 1, True, torch.float64),
    ("ring", 2, False, torch.float64),
    ("ring", 4, True, torch.float64),
    ("ring", 1, False, torch.float32),
    ("ring", 4, True, torch.float32),
]
CASES = list(itertools.product(MESHES, CONFIGS, WAYS))


def run_all_cases(_rank):
    """{case: outcome} and {ring case: bytes requested and sent}, from one set of processes."""
    outcomes, sent = {}, {}
    expected = {
        (name, dtype): whole_results(config, dtype)
        for name, config in CONFIGS.items()
        for dtype in BOUNDS
    }
    for shape, kind in itertools.product(MESHES, sorted({(way[0], way[2]) for way in WAYS})):
        algorithm, fused = kind
        replicas = 8 // (shape[0] * shape[1])
        mesh = init_mesh(*shape, data_parallel=replicas, algorithm=algorithm, fused=fused)
        for name, way in itertools.product(CONFIGS, WAYS):
            if (way[0], way[2]) == kind:
                before = asked_and_sent(mesh) if algorithm == "ring" else None
                pieces, cuts = results_on(mesh, CONFIGS[name], way[3], way[1])
                outcomes[shape, name, way] = outcome_of(pieces, cuts, expected[name, way[3]], mesh)
                if before is not None:
                    sent[shape, name, way] = asked_and_sent(mesh) - before
        mesh.close()
    return outcomes, sent


def asked_and_sent(mesh) -> torch.Tensor:
    """One rank's bytes by dimension: those that a ring's model predicts, and those sent."""
    rows = []
    for dimension in (mesh.first, mesh.second):
        asked = dimension.traffic.bytes
        halves = 2 * asked["all_reduce"] + asked["reduce_scatter"] + asked["all_gather"]
        sent = 0 if dimension.size == 1 else sent_for_the_model(dimension)
        rows.append([halves * (dimension.size - 1) / dimension.size, sent])
    return torch.tensor(rows, dtype=torch.float64)


def sent_for_the_model(dimension) -> int:
    """Without what its ranks tell each other in checks, as bytes."""
    stats = atp.torch.stats(dimension.group)
    told = stats["ring"].get("all_gather_single", {}).get("uint8", {"bytes": 0})["bytes"]
    return stats["bytes_sent"] - (dimension.size - 1) * told


@pytest.fixture(scope="module")
def results(gloo_ranks):
    return gloo_ranks.run(8, run_all_cases, backend="gloo")


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c[1]} on {c[0]} over {c[2][0]}, {c[2][1]} chunks, {c[2][2:]}"
)
def test_a_block_computes_the_same_as_unsharded(results, case):
    of_ranks = [outcomes[case] for outcomes, _ in results]
    for rank, outcome in enumerate(of_ranks):
        assert outcome.error <= BOUNDS[case[2][3]], f"rank {rank}: {outcome.tensor}"
    assert_copies_are_equal(of_ranks)


@pytest.mark.parametrize(
    "case", [c for c in CASES if c[2][0] == "ring"], ids=lambda c: f"{c[1]} on {c[0]}, {c[2][1:]}"
)
def test_a_ring_sends_the_bytes_that_the_model_predicts(results, case):
    """Summed over the ranks, whose shares differ if the values do not divide evenly. All-reduces of
    float32 also send exponents, and gather small tensors instead."""
    by_dimension = sum(sent[case] for _, sent in results)
    for size, (asked, sent) in zip(case[0], by_dimension.tolist(), strict=True):
        if case[2][3] == torch.float64:
            assert sent == round(asked)
        else:
            assert asked <= sent + 1e-6 <= 1.01 * max(1, size / 2) * asked + 1


def test_the_planner_is_asked_once_for_each_size_of_a_batch(gloo_ranks):
    def body(_rank):
        asked = []

        def counting(*arguments):
            asked.append(arguments)
            return core_spread(*arguments)

        block = parallelize(make_block(GPT, torch.float64), mesh=init_mesh(1, 2))
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(attention, "core_spread", counting)
            for batch in (4, 4, 2, 4):
                block(torch.zeros(batch, 3, HIDDEN // 2, dtype=torch.float64))
        return asked

    assert gloo_ranks.run(2, body, backend="gloo") == [[(8, 8, (1, 2), n) for n in (4, 2)]] * 2
