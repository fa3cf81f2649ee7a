"""Unmodified models on a mesh: `parallelize(model, mesh)` keeps what they compute and offer."""

import copy
import types

import pytest
import torch
from torch import nn

from atp.tensor_parallel import init_mesh, parallelize
from atp.tensor_parallel.sharding import cuts_of

from .comparing import assert_copies_are_equal, outcome_of
from .lookalikes import HIDDEN, MODELS, VOCABULARY, Llama, make

MESHES = {2: [(2, 1), (1, 2)], 4: [(4, 1), (2, 2), (1, 4)]}


def results(model):
    tokens = torch.randint(VOCABULARY, (3, 7), generator=torch.Generator().manual_seed(2))
    logits = model(tokens)
    loss = nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    said = {"logits": logits.detach(), "loss": loss.detach().reshape(1)}
    return said | {name: p.grad for name, p in model.named_parameters()}


def on_all_meshes(_rank):
    outcomes = {}
    for name, kind in MODELS.items():
        whole = results(make(kind))
        for size, shapes in MESHES.items():
            for shape in shapes:
                mesh = init_mesh(*shape, data_parallel=4 // size)
                model = parallelize(make(kind), mesh)
                cuts = cuts_of(model)
                everywhere = dict.fromkeys(("logits", "loss"), type(cuts["lm_head.weight"])())
                found = outcome_of(results(model), everywhere | cuts, whole, mesh)
                again = results(zeroed(copy.deepcopy(model)))
                outcomes[name, shape] = found, outcome_of(again, everywhere | cuts, whole, mesh)
                mesh.close()
    return outcomes


def zeroed(model):
    model.zero_grad()
    return model


@pytest.fixture(scope="module")
def outcomes(gloo_ranks):
    return gloo_ranks.run(4, on_all_meshes, backend="gloo")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mesh", [shape for shapes in MESHES.values() for shape in shapes])
def test_logits_loss_and_gradients_match_the_whole_model(outcomes, mesh, name):
    for found in outcomes:
        for outcome in found[name, mesh]:
            assert outcome.error < 1e-9, outcome.tensor
    assert_copies_are_equal([found[name, mesh][0] for found in outcomes])


class MoreBetween(Llama):
    """A model that computes `between` between its modules."""

    def __init__(self, between):
        super().__init__()
        self.between = between

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(self.between(x))
        return self.lm_head(self.norm(x))


OF_EACH_VALUE = {
    "a scale": lambda x: x * HIDDEN**0.5,
    "a sum with itself, clamped": lambda x: (x + x.clone()).clamp(-9, 9).tanh_(),
    "a dropout": lambda x: nn.functional.dropout(x, 0.5),
    "a mask of tokens": lambda x: x * torch.ones(x.shape[:2], dtype=x.dtype).unsqueeze(-1),
    "the mean of the tokens": lambda x: x - x.mean(1, keepdim=True),
    "tokens in another order": lambda x: torch.cat([x[:, 1:], x[:, :1]], 1)[:, [1, 0, 2]],
    "other shapes": lambda x: x.view(-1, x.shape[-1]).unflatten(0, x.shape[:2]).float().double(),
    "tokens first": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
}
OF_SEVERAL = {
    "a norm": lambda x: nn.functional.layer_norm(x, x.shape[-1:]),
    "a norm by hand": lambda x: x / x.square().mean(-1, keepdim=True).sqrt(),
    "a unit vector": lambda x: nn.functional.normalize(x, dim=-1),
    "a softmax": lambda x: x.softmax(-1),
    "a product": lambda x: x @ torch.eye(x.shape[-1], dtype=x.dtype),
    "a vector": lambda x: x + torch.arange(x.shape[-1]),
    "a feature": lambda x: x + x[..., :1],
    "other features first": lambda x: x.flip(-1),
    "features of several tokens": lambda x: x.reshape(x.shape[0], -1, 3).mT.reshape(x.shape),
    "all of it": lambda x: x - x.mean(),
}


def run_between(between):
    """The errors of the first run and of the second, which must fail, too."""
    mesh = init_mesh(1, 2)
    model = parallelize(MoreBetween(between).double(), mesh)
    texts = ["", ""]
    for run in range(2):
        try:
            model(torch.zeros(2, 3, dtype=torch.long))
        except ValueError as error:
            texts[run] = str(error)
    mesh.close()
    assert texts[0] == texts[1]
    return texts[0]


def test_element_wise_operations_between_modules_run(gloo_ranks):
    def body(_rank):
        return {name: run_between(between) for name, between in OF_EACH_VALUE.items()}

    for texts in gloo_ranks.run(2, body, backend="gloo"):
        assert texts == dict.fromkeys(OF_EACH_VALUE, "")


def test_operations_on_several_values_between_modules_are_an_error(gloo_ranks):
    def body(_rank):
        return {name: run_between(between) for name, between in OF_SEVERAL.items()}

    for texts in gloo_ranks.run(2, body, backend="gloo"):
        for name, text in texts.items():
            assert text.startswith("the model: its forward() computes aten."), name


class WithMore(Llama):
    """The methods of models of transformers besides the forward pass."""

    def __init__(self):
        super().__init__()
        self.config = types.SimpleNamespace(output_attentions=False)

    def forward(self, input_ids, output_attentions=None, output_hidden_states=None):
        return super().forward(input_ids)

    def generate(self, tokens):
        odds = self(tokens)[:, -1].softmax(-1)
        return torch.cat([tokens, odds.multinomial(1)], 1)

    def save_pretrained(self, folder, state_dict=None):
        return folder, state_dict


def test_ranks_with_different_seeds_sample_the_whole_models_tokens(gloo_ranks):
    def body(rank):
        tokens = torch.randint(VOCABULARY, (9, 3), generator=torch.Generator().manual_seed(2))
        mesh = init_mesh(2, 2)
        model = parallelize(make(WithMore), mesh)
        torch.manual_seed(rank)
        found = [model.generate(tokens) for _ in range(2)]
        whole = make(WithMore)
        torch.manual_seed(0)
        return [torch.equal(each, whole.generate(tokens)) for each in found]

    assert gloo_ranks.run(4, body, backend="gloo") == [[True, True]] * 4


def test_what_a_rank_has_only_a_piece_of_is_refused(gloo_ranks):
    def body(_rank):
        tokens = torch.zeros(1, 2, dtype=torch.long)
        mesh = init_mesh(1, 2)
        model = parallelize(make(WithMore), mesh)
        with pytest.raises(ValueError, match="output_hidden_states: on Mesh.* a rank has only a"):
            model(tokens, output_hidden_states=True)
        model.config.output_attentions = True
        with pytest.raises(ValueError, match="output_attentions: on Mesh.* has only the attention"):
            model(tokens)
        with pytest.raises(ValueError, match="save_pretrained: this rank has only a piece"):
            model.save_pretrained("folder")
        assert model.save_pretrained("folder", state_dict={}) == ("folder", {})

    gloo_ranks.run(2, body, backend="gloo")


def test_a_whole_tensor_where_a_piece_is_expected_is_an_error(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(1, 2)
        model = parallelize(make(Llama), mesh)
        for module in (model.norm, model.layers[0].attention):
            with pytest.raises(ValueError, match="expected 16, this rank's piece of 32"):
                module(torch.zeros(1, 1, HIDDEN, dtype=torch.float64))

    gloo_ranks.run(2, body, backend="gloo")
