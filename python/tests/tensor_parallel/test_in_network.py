"""Sums of activations by switches: as precise as float32."""

import itertools

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from atp.tensor_parallel import init_mesh, parallelize, vocabulary_parallel_cross_entropy

from ..packets import sent_for_sum
from .comparing import (
    COLUMNS,
    CONFIGS,
    assert_copies_are_equal,
    cuts_of_run,
    inputs,
    make_block,
    outcome_of,
    pieces_of_run,
    whole_results,
)
from .test_models import GPT, make, train, train_whole

MESHES = [(4, 1), (2, 2), (1, 4)]
SMALL = 1e-4  # the size of the gradients, with activations of about 1


def run_blocks(_rank):
    """{(mesh, config): outcome}."""
    outcomes = {}
    for shape, name in itertools.product(MESHES, CONFIGS):
        mesh = init_mesh(*shape, algorithm="innetwork")
        block = parallelize(make_block(CONFIGS[name], torch.float32))
        x, gradient = (COLUMNS.take(t, shape, 0, mesh.column) for t in inputs(torch.float32))
        pieces = pieces_of_run(block, x.clone(), gradient * SMALL)
        expected = whole_results(CONFIGS[name], torch.float64, SMALL)
        outcomes[shape, name] = outcome_of(pieces, cuts_of_run(block), expected, mesh)
        mesh.close()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(network, tmp_path_factory):
    from ..conftest import Ranks

    ranks = Ranks(tmp_path_factory.mktemp("ranks"), network.route)
    return ranks.run(4, run_blocks, backend="gloo")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("mesh", MESHES)
def test_a_block_is_as_precise_as_float32(outcomes, mesh, name):
    of_ranks = [outcome[mesh, name] for outcome in outcomes]
    for outcome in of_ranks:
        assert outcome.error <= 1e-6, outcome.tensor
    assert_copies_are_equal(of_ranks)


def test_a_layer_sends_only_the_packets_of_its_sums(ranks):
    """First transmissions, with the packets' headers and the blocks' exponents."""

    def body(_rank):
        sizes = {}
        real = dist.all_reduce

        def noting(tensor, *, group=None, **options):
            sizes.setdefault(group.group_name, []).append(tensor.numel())
            return real(tensor, group=group, **options)

        dist.all_reduce = noting
        mesh = init_mesh(2, 2, algorithm="innetwork")
        block = parallelize(make_block(CONFIGS["a GPT's block"], torch.float32))
        x, gradient = (COLUMNS.take(t, (2, 2), 0, mesh.column) for t in inputs(torch.float32))
        pieces_of_run(block, x.clone(), gradient)
        counted = []
        for dimension in (mesh.first, mesh.second):
            stats = atp.torch.stats(dimension.group)
            values = stats["values_per_fragment"]
            bytes_of = [sent_for_sum(n, 2, values)[1] for n in sizes[dimension.group.group_name]]
            counted.append((sum(bytes_of), stats["bytes_sent"]))
        mesh.close()
        return counted

    for counted in ranks.run(4, body, backend="gloo"):
        for expected, sent in counted:
            assert expected == sent > 0


def test_a_job_in_three_dimensions_trains_in_the_network(ranks):
    """Replicas' gradients, activations and their gradients: each group is a separate job."""
    expected, _ = train_whole(GPT, torch.float32)

    def body(rank):
        mesh = init_mesh(2, 1, data_parallel=2, algorithm="innetwork", data_algorithm="innetwork")
        model = parallelize(make(GPT, dtype=torch.float32))
        replica = DistributedDataParallel(model, process_group=mesh.data.group)
        half = slice(0, 4) if rank < 2 else slice(4, 8)
        losses = train(replica, vocabulary_parallel_cross_entropy, half)
        used = [
            atp.torch.stats(d.group)["innetwork"]["all_reduce"] for d in (mesh.data, mesh.first)
        ]
        assert all(calls["float32"]["calls"] > 0 for calls in used)
        mesh.close()
        return losses

    losses = ranks.run(4, body, backend="gloo")
    for i, loss in enumerate(expected):
        assert abs((losses[0][i] + losses[2][i]) / 2 - loss) < 1e-4 * loss
