"""A block on every mesh of 2, 4 and 8 ranks computes what it computes unsharded."""

import itertools

import pytest
import torch

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
# (chunks, fused, dtype): a fused mesh uses reduce-scatter where it needs a slice of a sum only.
WAYS = [
    (1, False, torch.float64),
    (2, True, torch.float64),
    (1, True, torch.float32),
    (4, False, torch.float32),
]
CASES = list(itertools.product(MESHES, CONFIGS, WAYS))


def run_all_cases(_rank):
    """{case: outcome}, on every mesh in one set of processes."""
    outcomes = {}
    expected = {
        (name, dtype): whole_results(config, dtype)
        for name, config in CONFIGS.items()
        for dtype in BOUNDS
    }
    for mesh_shape, fused in itertools.product(MESHES, (False, True)):
        replicas = 8 // (mesh_shape[0] * mesh_shape[1])
        mesh = init_mesh(*mesh_shape, data_parallel=replicas, fused=fused)
        for name, way in itertools.product(CONFIGS, WAYS):
            if way[1] == fused:
                chunks, _, dtype = way
                pieces = results_on(mesh, CONFIGS[name], dtype, chunks)
                outcomes[mesh_shape, name, way] = outcome_of(pieces, expected[name, dtype], mesh)
        mesh.close()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(gloo_ranks):
    return gloo_ranks.run(8, run_all_cases, backend="gloo")


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{case[1]} on {case[0]}, {case[2][0]} chunks, {case[2][1:]}"
)
def test_it_computes_what_it_does_unsharded(outcomes, case):
    of_ranks = [outcome[case] for outcome in outcomes]
    for rank, outcome in enumerate(of_ranks):
        assert outcome.error <= BOUNDS[case[2][2]], f"rank {rank}: {outcome.tensor}"
    assert_copies_are_equal(of_ranks)
