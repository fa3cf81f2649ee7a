"""The byte counts of SUMMA are those of a grid that computes the right products."""

import itertools

import pytest
import torch

from experiments.tensor_parallel import summa


@pytest.mark.parametrize("q", [2, 4])
def test_a_grid_computes_the_products_and_sends_what_is_counted(q):
    hidden, tokens = 16, 48
    draw = torch.Generator().manual_seed(q)
    grid = summa.Grid(q)
    for a, b in summa.PRODUCTS:
        x = torch.randn(tokens, a * hidden, generator=draw, dtype=torch.float64)
        w = torch.randn(a * hidden, b * hidden, generator=draw, dtype=torch.float64)
        dy = torch.randn(tokens, b * hidden, generator=draw, dtype=torch.float64)
        xs, ws, dys = grid.split(x), grid.split(w), grid.split(dy)
        torch.testing.assert_close(grid.join(grid.forward(xs, ws)), x @ w)
        torch.testing.assert_close(grid.join(grid.gradient_of_input(dys, ws)), dy @ w.T)
        torch.testing.assert_close(grid.join(grid.gradient_of_weight(xs, dys)), x.T @ dy)
    activations, weights = summa.of_layer(hidden, tokens)
    each = summa.share(q) / q / summa.ELEMENT * q**2  # values, of all ranks
    assert grid.activations == activations * each
    assert grid.weights == weights * each


def test_one_dimension_sends_eight_tensors_less_a_part():
    """Four all-reduces of T x h."""
    one, _ours = summa.meshes(summa.NETWORKS["IC4: InfiniBand, 16"], 2048)
    assert one.sent == pytest.approx(8 * summa.share(16) * summa.TOKENS * 2048 * summa.ELEMENT)
    assert one.seconds == pytest.approx(one.sent / 25e9)


def test_summa_on_one_switch_takes_the_time_of_what_a_rank_sends():
    levels = summa.NETWORKS["IC4: InfiniBand, 16"]
    for q, depth in ((4, 1), (2, 4)):
        cost = summa.summa(levels, 4096, q, depth)
        assert cost.seconds == pytest.approx(cost.sent / 25e9)


def test_meshes_or_their_replicas_are_faster_than_summa_on_the_papers_networks():
    for levels, hidden in itertools.product(summa.NETWORKS.values(), summa.MODELS.values()):
        found = summa.compared(levels, hidden)
        of_summa = [cost.seconds for cost in found if cost.way.startswith("2")]
        one, mesh, *replicas = (cost.seconds for cost in found if not cost.way.startswith("2"))
        assert mesh <= one
        assert of_summa and min(mesh, *replicas) < min(of_summa)
