"""Models that look like those of transformers: `parallelize(model, mesh)` supports or refuses them.

The modules here have transformers' names and their own forward passes. tests/real_programs tests
the same with transformers itself.
"""

import copy
import types

import pytest
import torch
from torch import nn

from atp.tensor_parallel import init_mesh, parallelize, plan_of
from atp.tensor_parallel.sharding import cuts_of

from .comparing import assert_copies_are_equal, outcome_of

VOCABULARY, HIDDEN, HEADS, KV_HEADS = 37, 32, 8, 2
WIDTH = HIDDEN // HEADS


class Conv1D(nn.Module):
    def __init__(self, outputs, inputs):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(inputs, outputs) / 4)
        self.bias = nn.Parameter(torch.randn(outputs) / 4)

    def forward(self, x):
        return x @ self.weight + self.bias


class LlamaRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(1 + torch.randn(width) / 4)
        self.variance_epsilon = 1e-6

    def forward(self, x):
        return self.weight * x * (x.square().mean(-1, keepdim=True) + self.variance_epsilon).rsqrt()


def heads(x):
    return x.view(*x.shape[:-1], -1, WIDTH).transpose(1, 2)


def attend(q, k, v):
    """Attention for any shapes: as many query heads per key-value head as the shapes have."""
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, 1), v.repeat_interleave(groups, 1)
    result = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    return result.transpose(1, 2).flatten(-2)


class FusedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim, self.split_size = WIDTH, HIDDEN
        self.c_attn, self.c_proj = Conv1D(3 * HIDDEN, HIDDEN), Conv1D(HIDDEN, HIDDEN)
        self.attn_dropout, self.resid_dropout = nn.Dropout(0), nn.Dropout(0)

    def forward(self, hidden_states):
        q, k, v = self.c_attn(hidden_states).split(self.split_size, -1)
        return self.resid_dropout(self.c_proj(attend(heads(q), heads(k), heads(v))))


class GroupedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.head_dim, self.num_key_value_groups = WIDTH, HEADS // KV_HEADS
        self.q_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.k_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH, bias=False)
        self.v_proj = nn.Linear(HIDDEN, KV_HEADS * WIDTH)
        self.o_proj = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, hidden_states):
        q, k, v = (heads(each(hidden_states)) for each in (self.q_proj, self.k_proj, self.v_proj))
        assert q.shape[1] == self.num_key_value_groups * k.shape[1]
        return self.o_proj(attend(q, k, v))


class ConvolutionalFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_fc, self.c_proj = Conv1D(64, HIDDEN), Conv1D(HIDDEN, 64)
        self.act, self.dropout = nn.GELU(), nn.Dropout(0)

    def forward(self, x):
        return self.dropout(self.c_proj(self.act(self.c_fc(x))))


class GatedFeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(HIDDEN, 48), nn.Linear(HIDDEN, 48, bias=False)
        self.down_proj, self.act_fn = nn.Linear(48, HIDDEN), nn.SiLU()

    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, norm, attention, feed_forward):
        super().__init__()
        self.norm1, self.norm2 = norm(HIDDEN), norm(HIDDEN)
        self.attention, self.feed_forward = attention(), feed_forward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class GPT2(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(VOCABULARY, HIDDEN), nn.Embedding(16, HIDDEN)
        self.drop = nn.Dropout(0)
        kinds = nn.LayerNorm, FusedAttention, ConvolutionalFeedForward
        self.h = nn.ModuleList(Block(*kinds) for _ in range(2))
        self.ln_f = nn.LayerNorm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, tokens):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, HIDDEN)
        kinds = LlamaRMSNorm, GroupedAttention, GatedFeedForward
        self.layers = nn.ModuleList(Block(*kinds) for _ in range(2))
        self.norm = LlamaRMSNorm(HIDDEN)
        self.lm_head = nn.Linear(HIDDEN, VOCABULARY)

    def forward(self, tokens):
        x = self.embed_tokens(tokens)
        for block in self.layers:
            x = block(x)
        return self.lm_head(self.norm(x))


MODELS = {"GPT-2": GPT2, "Llama": Llama}
MESHES = {2: [(2, 1), (1, 2)], 4: [(4, 1), (2, 2), (1, 4)]}


def make(kind):
    torch.manual_seed(1)
    return kind().double()


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


class GemmaRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        return super().forward(x) * (1 + 1 / self.weight)


class SquaredFeedForward(GatedFeedForward):
    def forward(self, x):
        return self.down_proj(self.act_fn(self.gate_proj(x)) * self.up_proj(x).square())


class ScaledFeedForward(GatedFeedForward):
    """Like GatedFeedForward, except for a factor in a tensor."""

    def __init__(self, scale, make):
        super().__init__()
        self.scale = make(scale)

    def forward(self, x):
        scale = self.scale[0] if isinstance(self.scale, tuple) else self.scale
        return super().forward(x) * scale


class CountsItsHeads(GroupedAttention):
    def __init__(self):
        super().__init__()
        self.n_heads = HEADS


def with_scales(make_scale):
    model = make(Llama)
    for layer, scale in zip(model.layers, (1.0, 0.5), strict=True):
        layer.feed_forward = ScaledFeedForward(scale, make_scale)
    return model


def with_changed(path, replacement, kind=Llama):
    model = make(kind)
    parent, _, last = path.rpartition(".")
    setattr(model.get_submodule(parent), last, replacement())
    return model


class HeadByHead(FusedAttention):
    """Like GPTBigCode's: queries, keys and values head by head."""

    def forward(self, hidden_states):
        x = self.c_attn(hidden_states).unflatten(-1, (-1, 3 * WIDTH)).transpose(1, 2)
        return self.resid_dropout(self.c_proj(attend(*x.split(WIDTH, -1))))


def with_softmax_between():
    model = make(Llama)
    model.layers[1].feed_forward.act_fn = nn.Softmax(-1)
    return model


def with_norms_of_queries():
    model = make(Llama)
    model.layers[1].attention.q_norm = LlamaRMSNorm(WIDTH)
    return model


def without_head():
    model = make(Llama)
    del model.lm_head
    return model


def cut_by_hand():
    model = make(GPT2)
    model.h[1].attention.forward = model.h[1].attention.forward
    return model


WHAT_CANNOT_BE_CUT = {
    "a norm that adds one to its weight": (
        lambda: with_changed("layers.0.norm1", lambda: GemmaRMSNorm(HIDDEN)),
        "layers.0.norm1: a GemmaRMSNorm cannot be cut",
    ),
    "a feed-forward block that computes something else": (
        lambda: with_changed("layers.1.feed_forward", SquaredFeedForward),
        "layers.1.feed_forward: a SquaredFeedForward cannot be cut: it does not compute what it",
    ),
    "a block that differs from an earlier one in a tensor": (
        lambda: with_scales(torch.tensor),
        "layers.1.feed_forward: a ScaledFeedForward cannot be cut: it does not compute what it",
    ),
    "a block that differs from an earlier one in a tuple": (
        lambda: with_scales(lambda scale: (scale,)),
        "layers.1.feed_forward: a ScaledFeedForward cannot be cut: it does not compute what it",
    ),
    "a feed-forward block with a parameter of its own": (
        lambda: with_scales(lambda scale: nn.Parameter(torch.tensor(scale))),
        "layers.0.feed_forward: a ScaledFeedForward cannot be cut: it has scale of its own",
    ),
    "an attention block with its own count of heads": (
        lambda: with_changed("layers.1.attention", CountsItsHeads),
        "layers.1.attention: a CountsItsHeads cannot be cut: what its n_heads = ",
    ),
    "an activation of a token's values together": (
        with_softmax_between,
        "layers.1.feed_forward: a GatedFeedForward cannot be cut: it does not compute what it",
    ),
    "a layer of another kind": (
        lambda: with_changed("layers.1.attention.k_proj", lambda: nn.Bilinear(2, 2, 2)),
        "layers.1.attention.k_proj: a Bilinear cannot be cut: it is not a linear layer",
    ),
    "one layer that computes one head after another": (
        lambda: with_changed("h.1.attention", HeadByHead, GPT2),
        "h.1.attention: a HeadByHead cannot be cut: c_attn does not compute all queries, then",
    ),
    "queries that are normalized": (
        with_norms_of_queries,
        "layers.1.attention: a GroupedAttention cannot be cut: it has q_norm besides q_proj",
    ),
    "a norm of another width": (
        lambda: with_changed("norm", lambda: nn.LayerNorm(HIDDEN // 2)),
        "norm: a LayerNorm cannot be cut: it is of 16 values",
    ),
    "a module of an unknown kind": (
        lambda: with_changed("drop", nn.Softmax, GPT2),
        "drop: a Softmax cannot be cut: parallelize() does not support it",
    ),
    "a forward pass that was replaced": (
        cut_by_hand,
        "h.1.attention: a FusedAttention cannot be cut: its forward() has been replaced",
    ),
    "no head": (without_head, "a Llama has no lm_head"),
}


@pytest.mark.parametrize("what", WHAT_CANNOT_BE_CUT)
def test_a_module_that_cannot_be_cut_is_named(what):
    make_model, expected = WHAT_CANNOT_BE_CUT[what]
    with pytest.raises(ValueError) as error:
        plan_of(make_model())
    assert expected in str(error.value)


def test_heads_that_a_mesh_cannot_share_are_named_before_anything_is_changed(gloo_ranks):
    class FiveHeads(GroupedAttention):
        def __init__(self):
            super().__init__()
            self.q_proj = nn.Linear(HIDDEN, 5 * WIDTH)
            self.k_proj, self.v_proj = nn.Linear(HIDDEN, WIDTH), nn.Linear(HIDDEN, WIDTH)
            self.o_proj = nn.Linear(5 * WIDTH, HIDDEN)

    def body(_rank):
        texts = []
        for shape in ((2, 1), (1, 2)):
            mesh = init_mesh(*shape)
            model = with_changed("layers.1.attention", FiveHeads)
            before = {name: type(module) for name, module in model.named_modules()}
            with pytest.raises(ValueError) as error:
                parallelize(model, mesh)
            assert before == {name: type(module) for name, module in model.named_modules()}
            texts.append(str(error.value))
            mesh.close()
        return texts

    for first, second in gloo_ranks.run(2, body, backend="gloo"):
        assert "layers.1.attention: d1 = 2 does not divide its 5 heads" in first
        assert "layers.1.attention: d2 = 2 does not divide the 5 heads of a row" in second


class NormsItsInput(GroupedAttention):
    def forward(self, hidden_states):
        return super().forward(nn.functional.normalize(hidden_states, dim=-1))


class DropsItsOutput(GroupedAttention):
    def forward(self, hidden_states):
        return nn.functional.dropout(super().forward(hidden_states), 0.5, self.training)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NormsItsInput, "layers.1.attention: it calls layers.1.attention.q_proj with something"),
        (DropsItsOutput, "layers.1.attention: its first result is not the output of its last"),
    ],
)
def test_a_block_that_computes_something_itself_on_a_piece_is_an_error(gloo_ranks, kind, expected):
    def body(_rank):
        mesh = init_mesh(1, 2)
        model = parallelize(with_changed("layers.1.attention", kind).double(), mesh)
        with pytest.raises(ValueError, match=expected):
            model(torch.zeros(1, 1, dtype=torch.long))

    gloo_ranks.run(2, body, backend="gloo")


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


def test_what_a_rank_has_a_piece_of_only_is_refused(gloo_ranks):
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
