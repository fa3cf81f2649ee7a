"""f1 to f4 and gather alone: the forward result, and a backward pass that matches it."""

import pytest
import torch
import torch.distributed as dist

from atp.tensor_parallel import Heads, Sequences, f1, f2, f3, f4, gather, init_mesh

MESHES = [(4, 1), (2, 2), (1, 4)]
BATCH, TOKENS, WIDTH = 4, 3, 32


def heads(count):
    return Heads(count, (WIDTH // 2, WIDTH // 4, WIDTH // 4), (1, 1, 1))


def sequences(count):
    return Sequences(count)


def slice_of(x, slicing, rank):
    return slicing.split(x)[rank].contiguous()


# The arguments from a whole tensor, and whether the backward pass is the transpose.
CASES = {
    "f1 by heads": lambda x, m: (x, lambda t: f1(t, m.second, heads(m.second.size))),
    "f1 by sequences": lambda x, m: (x, lambda t: f1(t, m.second, sequences(m.second.size))),
    "gather by heads": lambda x, m: (
        slice_of(x, heads(m.second.size), m.column),
        lambda t: gather(t, m.second, heads(m.second.size)),
    ),
    "gather by sequences": lambda x, m: (
        slice_of(x, sequences(m.second.size), m.column),
        lambda t: gather(t, m.second, sequences(m.second.size)),
    ),
    "f3": lambda x, m: (x, lambda t: f3(t, m.second)),
}


def draw(shape, seed):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def over_all_ranks(number):
    dist.all_reduce(number)
    return number.item()


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("case", CASES)
def test_backward_is_the_transpose_of_forward(gloo_ranks, mesh, case, fused):
    """Summed over the ranks, <f(x), g> = <x, f's backward of g> for all x and g."""

    def body(rank):
        own = init_mesh(*mesh, fused=fused)
        x, f = CASES[case](draw((BATCH, TOKENS, WIDTH), rank), own)
        x.requires_grad_()
        y = f(x)
        g = draw(y.shape, 100 + rank)
        y.backward(g)
        return over_all_ranks((y.detach() * g).sum()), over_all_ranks((x.detach() * x.grad).sum())

    for forward, backward in gloo_ranks.run(4, body, backend="gloo"):
        assert forward == pytest.approx(backward, rel=1e-12)


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("f", [f2, f4], ids=["f2", "f4"])
def test_a_sum_over_dimension_1_returns_its_gradient_unchanged(gloo_ranks, mesh, f):
    def body(rank):
        own = init_mesh(*mesh)
        x = draw((BATCH, WIDTH), rank).requires_grad_()
        y = f(x, own.first)
        y.backward(g := draw((BATCH, WIDTH), 100))
        column = range(own.column, 4, own.second.size)  # ranks i * d2 + column
        expected = sum(draw((BATCH, WIDTH), other) for other in column)
        return torch.allclose(y, expected, rtol=1e-12), torch.equal(x.grad, g)

    assert gloo_ranks.run(4, body, backend="gloo") == [(True, True)] * 4
