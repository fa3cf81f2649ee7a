"""A ring's float32 all-reduces have the same bits as the network's."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from . import numbers_cases as cases
from .numbers_rank import OPTIONS, operation
from .test_errors import errors_of
from .test_hooks import TwoLayers

LINEAR = ("SUM", "AVG", "PREMUL_SUM")
FILLS = list(cases.FILLS)


def groups(**options):
    """The same group twice: in the network and as a ring."""
    every = [*range(dist.get_world_size())]
    return [
        dist.new_group(every, pg_options=atp.torch.Options(algorithm=algorithm, **options))
        for algorithm in ("innetwork", "ring")
    ]


def bits(case, rank, group) -> bytes:
    tensors = [torch.from_numpy(one.copy()) for one in case.inputs(rank)]
    if len(tensors) == 1:
        dist.all_reduce(tensors[0], operation(case), group=group)
    else:
        dist.all_reduce_coalesced(tensors, operation(case), group=group)
    return torch.cat(tensors).numpy().tobytes()


def todo(world_size):
    """Every fill small and large, alone and coalesced; then drawn cases."""
    lengths = [(5,), (4096 // world_size,), (4097 // world_size + 1,), (70_001,), (300, 0, 1, 9000)]
    found = [
        cases.Case(number, world_size, "float32", LINEAR[number % 3], wire, fill, length)
        for number, (fill, length) in enumerate((f, le) for f in FILLS for le in lengths)
        for wire in OPTIONS
    ]
    drawn = cases.drawn(77_000, world_size, 150)
    return found + [case for case in drawn if case.kind == "float32" and case.op in LINEAR]


@pytest.mark.parametrize("world_size", [2, 3])
def test_every_sum_over_a_ring_has_the_bits_of_the_network(ranks, world_size):
    def body(rank):
        both = {name: groups(**options) for name, options in OPTIONS.items()}
        differ = []
        for case in todo(world_size):
            network, ring = (bits(case, rank, group) for group in both[case.group])
            if network != ring:
                differ.append(str(case))
        network, ring = (atp.torch.stats(group) for group in both["int32"])
        assert not network["ring"] and not ring["innetwork"] and not ring["peers"]
        return differ

    assert ranks.run(world_size, body) == [[]] * world_size


@pytest.mark.parametrize("hook", [atp.torch.ddp_hook, atp.torch.int16_hook])
def test_gradients_have_the_bits_of_the_network_with_a_hook(ranks, hook):
    def body(rank):
        found = []
        for group in groups():
            model = DistributedDataParallel(TwoLayers(), process_group=group)
            model.register_comm_hook(group, hook)
            generator = torch.Generator().manual_seed(rank)
            model(torch.randn(8, 40, generator=generator)).sum().backward()
            layers = model.module.large, model.module.small
            found.append(b"".join(layer.weight.grad.numpy().tobytes() for layer in layers))
        return found

    for network, ring in ranks.run(3, body):
        assert network == ring


def test_sixteen_bits_also_take_half_the_bytes_over_a_ring(ranks):
    def body(rank):
        _, wide = groups()
        _, narrow = groups(wire="int16")
        for group in (wide, narrow):
            dist.all_reduce(torch.ones(64 * 1024), group=group)
        return [atp.torch.stats(group)["bytes_sent"] for group in (wide, narrow)]

    exponents = 2 * 256
    assert ranks.run(2, body) == [[4 * 65_536 + exponents, 2 * 65_536 + exponents]] * 2


def test_a_ring_refuses_the_fixed_scale(ranks):
    def body(rank):
        groups(scale="fixed")

    for error in errors_of(ranks.outcomes(2, body)):
        assert error.startswith("ValueError: scale='fixed' is for sums in the network")


def test_ranks_of_a_ring_with_different_formats_get_an_error(ranks):
    def body(rank):
        groups(exact=rank == 0)

    for error in errors_of(ranks.outcomes(2, body)):
        assert "'exact'" in error and "'blocks'" in error
