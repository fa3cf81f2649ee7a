"""Over our own ring: as precise as Gloo, with a true reduce-scatter, and bytes as predicted."""

import itertools

import pytest
import torch

import atp.torch
from atp.tensor_parallel import init_mesh, parallelize

from .comparing import (
    COLUMNS,
    CONFIGS,
    assert_copies_are_equal,
    inputs,
    make_block,
    outcome_of,
    pieces_of_run,
    whole_results,
)

BOUNDS = {torch.float64: 1e-12, torch.float32: 1e-5}
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]


def run_blocks(_rank):
    """{(mesh, config, type): outcome}, and {mesh: asked_and_sent() of each dimension}."""
    outcomes, sent = {}, {}
    for shape in MESHES:
        mesh = init_mesh(*shape, algorithm="ring")
        for name, dtype in itertools.product(CONFIGS, BOUNDS):
            block = parallelize(make_block(CONFIGS[name], dtype))
            x, gradient = (COLUMNS.take(t, shape, 0, mesh.column) for t in inputs(dtype))
            pieces = pieces_of_run(block, x.clone(), gradient)
            expected = whole_results(CONFIGS[name], dtype)
            outcomes[shape, name, dtype] = outcome_of(pieces, expected, mesh)
        sent[shape] = [asked_and_sent(dimension) for dimension in (mesh.first, mesh.second)]
        mesh.close()
    return outcomes, sent


def asked_and_sent(dimension) -> tuple[float, int]:
    """Of one rank: what the planner's model makes of what was asked for, and what it sent."""
    if dimension.size == 1:
        return 0, 0
    asked = dimension.traffic.bytes
    share = (dimension.size - 1) / dimension.size
    halves = 2 * asked["all_reduce"] + asked["reduce_scatter"] + asked["all_gather"]
    assert asked["reduce_scatter"] > 0 or dimension.number == 1
    return halves * share, atp.torch.stats(dimension.group)["bytes_sent"]


@pytest.fixture(scope="module")
def outcomes(gloo_ranks):
    return gloo_ranks.run(8, run_blocks, backend="gloo")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("mesh", MESHES)
def test_a_block_computes_what_it_does_unsharded(outcomes, mesh, name):
    for dtype, bound in BOUNDS.items():
        of_ranks = [outcome[mesh, name, dtype] for outcome, _ in outcomes]
        assert max(outcome.error for outcome in of_ranks) <= bound
        assert_copies_are_equal(of_ranks)


@pytest.mark.parametrize("mesh", MESHES)
def test_a_group_sends_what_the_model_says(outcomes, mesh):
    """Summed over the ranks, whose shares differ where they do not divide the values."""
    for dimension in (0, 1):
        of_ranks = [sent[mesh][dimension] for _, sent in outcomes]
        asked, sent = (sum(column) for column in zip(*of_ranks, strict=True))
        assert round(asked) == sent
