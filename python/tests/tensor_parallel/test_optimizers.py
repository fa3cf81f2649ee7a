"""Optimizers that look at whole matrices are refused on pieces, and work on DTensors."""

import pytest
import torch
from torch.distributed.optim import ZeroRedundancyOptimizer

from atp.tensor_parallel import full_state_dict, init_mesh, parallelize

from .lookalikes import GPT2, VOCABULARY, Llama, make

TOKENS = torch.randint(VOCABULARY, (4, 8), generator=torch.Generator().manual_seed(0))
OF_EACH_VALUE = {
    "SGD": {"momentum": 0.9, "weight_decay": 0.1},
    "Adam": {"amsgrad": True},
    "AdamW": {"fused": True},
    "NAdam": {},
    "RAdam": {},
    "Adamax": {},
    "Adagrad": {},
    "Adadelta": {},
    "RMSprop": {},
    "ASGD": {},
    "Rprop": {},
}


class Lamb(torch.optim.Optimizer):
    """Somebody's: the step of each parameter is as long as the parameter."""

    def __init__(self, parameters, lr=0.01):
        super().__init__(parameters, {"lr": lr})
        self.scale = 1.0

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad * p.norm() / p.grad.norm(), alpha=group["lr"] * self.scale)


class ByRow(Lamb):
    """The same for each row of a matrix."""

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad / p.grad.norm(dim=-1, keepdim=True), alpha=group["lr"])


class Signs(Lamb):
    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"] * self.scale)


def matrices(model):
    return [p for p in model.parameters() if p.dim() == 2]


OF_WHOLE_MATRICES = {
    "Adafactor": lambda model: torch.optim.Adafactor(model.parameters()),
    "Muon": lambda model: torch.optim.Muon(matrices(model)),
    "LBFGS": lambda model: torch.optim.LBFGS(model.parameters()),
    "Lamb": lambda model: Lamb(model.parameters()),
    "ByRow": lambda model: ByRow(model.parameters()),
    "Lamb with a warm-up": lambda model: Lamb(model.parameters(), lr=0.0),
}


def step(model, optimizer):
    model(TOKENS).square().mean().backward()
    optimizer.step(*([lambda: 0.0] if isinstance(optimizer, torch.optim.LBFGS) else []))


def test_an_optimizer_of_whole_matrices_is_refused_before_it_changes_anything(gloo_ranks):
    def body(_rank):
        mesh, texts = init_mesh(1, 2), {}
        for what, make_optimizer in OF_WHOLE_MATRICES.items():
            model = parallelize(make(Llama), mesh)
            optimizer, before = make_optimizer(model), full_state_dict(model)
            with pytest.raises(ValueError) as error:
                step(model, optimizer)
            after = full_state_dict(model)
            assert all(torch.equal(after[name], value) for name, value in before.items())
            texts[what] = str(error.value)
        return texts

    for texts in gloo_ranks.run(2, body, backend="gloo"):
        assert texts.keys() == OF_WHOLE_MATRICES.keys()
        for what, text in texts.items():
            assert text.startswith(f"{what.split()[0]} cannot step on a rank's pieces: ")
            assert "parallelize(..., dtensors=True)" in text


def test_others_step(gloo_ranks):
    def body(_rank):
        model = parallelize(make(GPT2), init_mesh(2, 1))
        for name, more in OF_EACH_VALUE.items():
            optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01, **more)
            before = full_state_dict(model)
            step(model, optimizer)
            after = full_state_dict(model)
            assert any(not torch.equal(after[key], value) for key, value in before.items()), name
        step(model, Signs(model.parameters()))

    gloo_ranks.run(2, body, backend="gloo")


def test_on_dtensors_and_on_a_whole_model_they_are_left_alone(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 1)
        for model in (parallelize(make(Llama), mesh, dtensors=True), make(Llama)):
            step(model, torch.optim.Muon(matrices(model)))

    gloo_ranks.run(2, body, backend="gloo")


def test_an_optimizer_that_shares_its_state_out_needs_the_replicas(gloo_ranks):
    def body(_rank):
        model = parallelize(make(Llama), init_mesh(2, 1))
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        with pytest.raises(ValueError, match="ZeroRedundancyOptimizer: found a process group of"):
            step(model, optimizer)

    gloo_ranks.run(2, body, backend="gloo")
