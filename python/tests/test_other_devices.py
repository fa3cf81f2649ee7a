"""Tensors on a device that torch does not know, its PrivateUse1: here one with arrays of numpy."""

import numpy
import pytest
import torch
import torch.distributed as dist
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from .ways import WAYS, options_of

RANKS = 3
COUNT = 6
DEVICES = "cpu:atp,privateuseone:atp"


class FarTensor(torch.Tensor):
    """torch knows no address of its values."""

    @staticmethod
    def __new__(cls, values):
        kind = torch.from_numpy(values).dtype
        tensor = torch._C._acc.create_empty_tensor(values.shape, kind)
        tensor.__class__ = cls
        return tensor

    def __init__(self, values):
        self.values = values


def register_device():
    """All that it can do: make tensors, copy and view them. Only in a rank: it cannot be undone."""
    _setup_privateuseone_for_python_backend("far")

    def values_of(tensor):
        return tensor.values if isinstance(tensor, FarTensor) else tensor.detach().numpy()

    @torch.library.impl("aten::empty.memory_format", "privateuseone")
    def empty(size, dtype=None, **_others):
        return FarTensor(torch.empty(size, dtype=dtype).numpy())

    @torch.library.impl("aten::_copy_from", "privateuseone")
    def copy_from(source, target, _non_blocking=False):
        values_of(target)[...] = values_of(source)
        return target

    @torch.library.impl("aten::view", "privateuseone")
    def view(tensor, size):
        return FarTensor(tensor.values.reshape([int(length) for length in size]))


# What each rank has, and what it must get: (found, expected), lists of tensors and of arrays.


def block(rank, to=0):
    return numpy.arange(COUNT) * (rank + 1) + to


def blocks(rank):
    return numpy.concatenate([block(rank, to) for to in range(RANKS)])


def sum_for(to):
    return sum(block(rank, to) for rank in range(RANKS))


def all_reduce(rank, far):
    tensor = far(block(rank))
    dist.all_reduce(tensor)
    return [tensor], [sum_for(0)]


def all_reduce_coalesced(rank, far):
    tensors = [far(block(rank)), far(block(rank, 1))]
    dist.all_reduce_coalesced(tensors)
    return tensors, [sum_for(0), sum_for(1)]


def broadcast(rank, far):
    tensor = far(block(rank))
    dist.broadcast(tensor, 1)
    return [tensor], [block(1)]


def all_gather(rank, far):
    outputs = [far(block(0)) for _ in range(RANKS)]
    dist.all_gather(outputs, far(block(rank)))
    return outputs, [block(other) for other in range(RANKS)]


def all_gather_into_tensor(rank, far):
    output = far(blocks(0))
    dist.all_gather_into_tensor(output, far(block(rank)))
    return [output], [numpy.concatenate([block(other) for other in range(RANKS)])]


def reduce_scatter_tensor(rank, far):
    output = far(block(0))
    dist.reduce_scatter_tensor(output, far(blocks(rank)))
    return [output], [sum_for(rank)]


def all_to_all_single(rank, far):
    output = far(blocks(0))
    dist.all_to_all_single(output, far(blocks(rank)))
    return [output], [numpy.concatenate([block(other, rank) for other in range(RANKS)])]


def send_and_recv(rank, far):
    work = dist.isend(far(block(rank)), (rank + 1) % RANKS)
    output = far(block(0))
    dist.recv(output, (rank - 1) % RANKS)
    work.wait()
    return [output], [block((rank - 1) % RANKS)]


CALLS = (
    all_reduce, all_reduce_coalesced, broadcast, all_gather, all_gather_into_tensor,
    reduce_scatter_tensor, all_to_all_single, send_and_recv,
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_collectives_take_tensors_of_another_device(ranks, way):
    def body(rank):
        register_device()
        wrong = []
        for call in CALLS:
            for kind in ("float32", "int64"):
                found, expected = call(rank, lambda values, k=kind: FarTensor(values.astype(k)))
                if not numpy.array_equal([tensor.values for tensor in found], expected):
                    wrong.append(f"{call.__name__} of {kind}")
        return wrong

    results = ranks.run(
        RANKS, body, backend=DEVICES, memory=way == "memory", pg_options=options_of(way)
    )
    assert results == [[]] * RANKS
