"""torch's DTensor, an independent implementation, computes the same from the paper's sharding."""

import pytest
import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from atp.tensor_parallel import ATPLinear, init_mesh

TOKENS, HIDDEN, WIDE = 6, 16, 32
COLUMN, ROW = [Shard(0), Shard(1)], [Shard(1), Shard(0)]  # for torch's [out, in]


def by_dtensor(mesh, a, b, x):
    """x A gelu B of distributed tensors: this rank's output and gradients."""
    mesh = mesh.device_mesh["tp1", "tp2"]
    a, b = distribute_tensor(a, mesh, COLUMN), distribute_tensor(b, mesh, ROW)
    x = distribute_tensor(x, mesh, [Replicate(), Shard(1)])
    for tensor in (a, b, x):
        tensor.requires_grad_()
    wide = nn.functional.linear(x, a).redistribute(mesh, [Shard(1), Replicate()])
    output = nn.functional.linear(nn.functional.gelu(wide), b)
    output = output.redistribute(mesh, [Replicate(), Shard(1)])
    output.square().sum().backward()
    gradients = [
        gradient.redistribute(mesh, specs).to_local()
        for gradient, specs in ((x.grad, [Replicate(), Shard(1)]), (a.grad, COLUMN), (b.grad, ROW))
    ]
    return [output.to_local(), *gradients]


def by_us(mesh, a, b, x):
    first = ATPLinear(HIDDEN, WIDE, "column", bias=False, mesh=mesh, dtype=x.dtype)
    second = ATPLinear(WIDE, HIDDEN, "row", bias=False, mesh=mesh, dtype=x.dtype)
    with torch.no_grad():
        local = [distribute_tensor(w, mesh.device_mesh["tp1", "tp2"], spec).to_local()
                 for w, spec in ((a, COLUMN), (b, ROW))]  # fmt: skip
        first.weight.copy_(local[0])
        second.weight.copy_(local[1])
    x = x.chunk(mesh.second.size, 1)[mesh.column].contiguous().requires_grad_()
    output = second(nn.functional.gelu(first(x)))
    output.square().sum().backward()
    return [output.detach(), x.grad, first.weight.grad, second.weight.grad]


@pytest.mark.parametrize("shape", [(4, 1), (2, 2), (1, 4)])
def test_two_layers_compute_the_same_as_dtensor(gloo_ranks, shape):
    def body(_rank):
        generator = torch.Generator().manual_seed(3)
        shapes = ((WIDE, HIDDEN), (HIDDEN, WIDE), (TOKENS, HIDDEN))
        tensors = [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]
        mesh = init_mesh(*shape)
        expected, found = by_dtensor(mesh, *tensors), by_us(mesh, *tensors)
        assert not any(isinstance(tensor, DTensor) for tensor in found)
        return [
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True)
        ]

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        assert all(error < 1e-13 for error in errors), errors


def test_layers_start_equal_on_every_mesh_whatever_the_ranks_seeds(gloo_ranks):
    def body(rank):
        torch.manual_seed(100 + rank)
        wholes = []
        for shape in ((4, 1), (2, 2), (1, 4)):
            mesh = init_mesh(*shape)
            layer = ATPLinear(HIDDEN, WIDE, "column", site="layer")
            tp = mesh.device_mesh["tp1", "tp2"]
            wholes.append(DTensor.from_local(layer.weight.detach(), tp, COLUMN).full_tensor())
        return [torch.equal(whole, wholes[0]) for whole in wholes], float(wholes[0].abs().max())

    for same, largest in gloo_ranks.run(4, body, backend="gloo"):
        assert same == [True] * 3
        assert 0.9 / HIDDEN**0.5 < largest <= 1 / HIDDEN**0.5
