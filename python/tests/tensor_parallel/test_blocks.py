"""A block on every mesh of 2, 4 and 8 ranks computes what it computes unsharded."""

import itertools

import pytest
import torch

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import init_mesh

from .comparing import (
    CONFIGS,
    MESHES,
    assert_copies_are_equal,
    outcome_of,
    results_on,
    whole_results,
)

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}
# (algorithm, chunks, fused, dtype): a fused mesh uses reduce-scatter where it needs a slice only.
# Gloo is ten times slower at this than our ring, so the ring is taken through more ways.
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
    """{case: outcome}, and {mesh: bytes asked for and sent}, in one set of processes."""
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
                pieces = results_on(mesh, CONFIGS[name], way[3], way[1])
                outcomes[shape, name, way] = outcome_of(pieces, expected[name, way[3]], mesh)
        if algorithm == "ring":
            sent[shape, fused] = [asked_and_sent(d) for d in (mesh.first, mesh.second)]
        mesh.close()
    return outcomes, sent


def asked_and_sent(dimension) -> tuple[float, int]:
    """Of one rank: what a ring's model makes of what was asked for, and what it sent."""
    if dimension.size == 1:
        return 0, 0
    asked = dimension.traffic.bytes
    share = (dimension.size - 1) / dimension.size
    halves = 2 * asked["all_reduce"] + asked["reduce_scatter"] + asked["all_gather"]
    return halves * share, atp.torch.stats(dimension.group)["bytes_sent"]


@pytest.fixture(scope="module")
def results(gloo_ranks):
    return gloo_ranks.run(8, run_all_cases, backend="gloo")


@pytest.mark.parametrize(
    "case", CASES, ids=lambda c: f"{c[1]} on {c[0]} over {c[2][0]}, {c[2][1]} chunks, {c[2][2:]}"
)
def test_it_computes_what_it_does_unsharded(results, case):
    of_ranks = [outcomes[case] for outcomes, _ in results]
    for rank, outcome in enumerate(of_ranks):
        assert outcome.error <= BOUNDS[case[2][3]], f"rank {rank}: {outcome.tensor}"
    assert_copies_are_equal(of_ranks)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("fused", [False, True])
def test_a_ring_sends_what_the_model_says(results, mesh, fused):
    """Summed over the ranks, whose shares differ where they do not divide the values."""
    for dimension in (0, 1):
        of_ranks = [sent[mesh, fused][dimension] for _, sent in results]
        asked, sent = (sum(column) for column in zip(*of_ranks, strict=True))
        assert round(asked) == sent
