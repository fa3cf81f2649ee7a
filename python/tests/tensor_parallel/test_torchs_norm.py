"""torch's own clip_grad_norm_ counts the gradients of the whole model, whatever it is called."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_  # imported before there is a mesh

from atp.tensor_parallel import full_state_dict, grad_norm, init_mesh, parallelize

from .lookalikes import GPT2, VOCABULARY, Llama, make

TOKENS = torch.randint(VOCABULARY, (4, 8), generator=torch.Generator().manual_seed(0))


def trained(model, clip):
    """The norms that three clipped steps found."""
    optimizer, norms = torch.optim.SGD(model.parameters(), lr=0.1), []
    for _ in range(3):
        optimizer.zero_grad()
        logits = model(TOKENS)
        nn.functional.cross_entropy(logits.flatten(0, -2), TOKENS.flatten()).backward()
        norms.append(float(clip(model)))
        optimizer.step()
    return norms


def by_torch(power):
    return lambda model: clip_grad_norm_(model.parameters(), 0.1, power)


def in_two_steps(model):
    gradients = [parameter.grad for parameter in model.parameters()]
    norm = torch.nn.utils.get_total_norm(gradients)
    torch.nn.utils.clip_grads_with_norm_(model.parameters(), 0.1, norm)
    return norm


HOW = {
    "the 2-norm": by_torch(2),
    "the 3-norm": by_torch(3),
    "the largest": by_torch(float("inf")),
    "in two steps": in_two_steps,
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("kind", [Llama, GPT2])
@pytest.mark.parametrize("shape", [(2, 2), (4, 1), (1, 4)])
def test_a_clipped_model_trains_like_the_whole_one(gloo_ranks, how, kind, shape):
    def body(_rank):
        whole, model = make(kind), parallelize(make(kind), init_mesh(*shape))
        expected, found = trained(whole, HOW[how]), trained(copy.deepcopy(model), HOW[how])
        assert trained(model, HOW[how]) == found
        errors = [
            float((value - whole.state_dict()[name]).abs().max())
            for name, value in full_state_dict(model).items()
        ]
        return found, expected, max(errors), float(grad_norm(model))

    for found, expected, error, _ in gloo_ranks.run(4, body, backend="gloo"):
        assert found == pytest.approx(expected, rel=1e-9)
        assert error < 1e-9


def test_a_model_without_pieces_is_left_to_torch(gloo_ranks):
    def body(_rank):
        init_mesh(2, 1)
        return trained(make(Llama), HOW["the 2-norm"])

    first, second = gloo_ranks.run(2, body, backend="gloo")
    assert first == second


def test_a_norm_that_is_not_finite_is_an_error_on_every_rank(gloo_ranks):
    def body(rank):
        model = parallelize(make(Llama), init_mesh(2, 1))
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, torch.nan if rank else 1)
        with pytest.raises(RuntimeError, match="is non-finite"):
            clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)

    gloo_ranks.run(2, body, backend="gloo")
