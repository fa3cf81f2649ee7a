"""Modules of unmodified models that cannot be split are refused by name."""

import pytest
import torch
from torch import nn

from atp.tensor_parallel import init_mesh, parallelize, plan_of

from .lookalikes import (
    GPT2,
    HEADS,
    HIDDEN,
    WIDTH,
    FusedAttention,
    GatedFeedForward,
    GroupedAttention,
    Llama,
    LlamaRMSNorm,
    attend,
    heads,
    make,
    with_changed,
)


class CubicRMSNorm(LlamaRMSNorm):
    def forward(self, x):
        return super().forward(x) * self.weight.square()


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
        self.heads_here = HEADS


def with_scales(make_scale):
    model = make(Llama)
    for layer, scale in zip(model.layers, (1.0, 0.5), strict=True):
        layer.feed_forward = ScaledFeedForward(scale, make_scale)
    return model


class MixesHeads(FusedAttention):
    """Queries, keys and values of one value of all heads after another."""

    def forward(self, hidden_states):
        x = self.c_attn(hidden_states).unflatten(-1, (WIDTH, -1, 3)).movedim(-1, 0)
        return self.resid_dropout(self.c_proj(attend(*(each.transpose(-1, -3) for each in x))))


class NormsAllQueries(GroupedAttention):
    """A norm over all heads together that has no weight, so that nothing shows it."""

    def forward(self, hidden_states):
        q, k, v = (each(hidden_states) for each in (self.q_proj, self.k_proj, self.v_proj))
        q = nn.functional.rms_norm(q, q.shape[-1:])
        return self.o_proj(attend(heads(q), heads(k), heads(v)))


class NumbersItsHeads(GroupedAttention):
    """Like ALiBi: a slope for each head, by its number."""

    def forward(self, hidden_states):
        q, k, v = (heads(each(hidden_states)) for each in (self.q_proj, self.k_proj, self.v_proj))
        slopes = 2.0 ** -torch.arange(q.shape[1], dtype=q.dtype)
        return self.o_proj(attend(q * slopes[:, None, None], k, v))


def with_softmax_between():
    model = make(Llama)
    model.layers[1].feed_forward.act_fn = nn.Softmax(-1)
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
    "a norm that uses its weight in another way": (
        lambda: with_changed("layers.0.norm1", lambda: CubicRMSNorm(HIDDEN)),
        "layers.0.norm1: CubicRMSNorm cannot be split",
    ),
    "a feed-forward block that computes something else": (
        lambda: with_changed("layers.1.feed_forward", SquaredFeedForward),
        "layers.1.feed_forward: SquaredFeedForward cannot be split: it does not compute what it",
    ),
    "a block that differs from an earlier one in a tensor": (
        lambda: with_scales(torch.tensor),
        "layers.1.feed_forward: ScaledFeedForward cannot be split: it does not compute what it",
    ),
    "a block that differs from an earlier one in a tuple": (
        lambda: with_scales(lambda scale: (scale,)),
        "layers.1.feed_forward: ScaledFeedForward cannot be split: it does not compute what it",
    ),
    "a feed-forward block with a parameter of its own": (
        lambda: with_scales(lambda scale: nn.Parameter(torch.tensor(scale))),
        "layers.0.feed_forward: ScaledFeedForward cannot be split: it has scale of its own",
    ),
    "an attention block with its own count of heads": (
        lambda: with_changed("layers.1.attention", CountsItsHeads),
        "layers.1.attention: CountsItsHeads cannot be split: it is not known what its heads_",
    ),
    "an activation of a token's values together": (
        with_softmax_between,
        "layers.1.feed_forward: GatedFeedForward cannot be split: it does not compute what it",
    ),
    "a layer of another kind": (
        lambda: with_changed("layers.1.attention.k_proj", lambda: nn.Bilinear(2, 2, 2)),
        "layers.1.attention.k_proj: Bilinear cannot be split: it is not a linear layer",
    ),
    "one layer that mixes the heads": (
        lambda: with_changed("h.1.attention", MixesHeads, GPT2),
        "h.1.attention: MixesHeads cannot be split: ",
    ),
    "a norm of all queries": (
        lambda: with_changed("layers.1.attention", NormsAllQueries),
        "layers.1.attention: NormsAllQueries cannot be split: with 4 of its 8 heads it does not",
    ),
    "a slope by the number of a head": (
        lambda: with_changed("layers.1.attention", NumbersItsHeads),
        "layers.1.attention: NumbersItsHeads cannot be split: with 4 of its 8 heads it does not",
    ),
    "a norm of another width": (
        lambda: with_changed("norm", lambda: nn.LayerNorm(HIDDEN // 2)),
        "norm: LayerNorm cannot be split: it has 16 values",
    ),
    "a module of an unknown kind": (
        lambda: with_changed("drop", nn.Softmax, GPT2),
        "drop: Softmax cannot be split: parallelize() does not support it",
    ),
    "a forward pass that was replaced": (
        cut_by_hand,
        "h.1.attention: FusedAttention cannot be split: its forward() has been replaced",
    ),
    "no head": (without_head, "Llama has no lm_head"),
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
            self.num_key_value_groups = 5
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
