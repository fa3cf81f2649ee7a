"""An attention block whose own code is wrong on the heads of one rank is refused when it first
runs, on all ranks and by name; others are not."""

import warnings

import pytest
import torch
from torch import nn

from atp.tensor_parallel import init_mesh, known_attention, parallelize

from .lookalikes import (
    GPT2,
    HEADS,
    WIDTH,
    FusedAttention,
    GroupedAttention,
    attend,
    heads,
    with_changed,
)

TOKENS = torch.arange(24).view(3, 8)


@pytest.fixture(autouse=True)
def only_the_first_run_tries_blocks(monkeypatch):
    """parallelize() refuses most of these itself, without their real masks and gradients."""
    monkeypatch.setattr(known_attention, "why_not_apart", lambda *_: None)


class NormsAllQueries(GroupedAttention):
    """A norm over the queries of all heads, without a weight: nothing in its parts says so."""

    def forward(self, hidden_states):
        q, k, v = (each(hidden_states) for each in (self.q_proj, self.k_proj, self.v_proj))
        q = nn.functional.rms_norm(q, q.shape[-1:])
        return self.o_proj(attend(heads(q), heads(k), heads(v)))


class SlopesByNumber(GroupedAttention):
    """ALiBi: the bias depends on the number of the head, the first being 0."""

    def forward(self, hidden_states):
        q, k, v = (heads(each(hidden_states)) for each in (self.q_proj, self.k_proj, self.v_proj))
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        slopes = 2.0 ** -torch.arange(1, q.shape[1] + 1)
        distances = torch.arange(q.shape[2]) - torch.arange(q.shape[2]).view(-1, 1)
        bias = (slopes.view(-1, 1, 1) * distances).to(q).masked_fill(distances > 0, -torch.inf)
        made = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        return self.o_proj(made.transpose(1, 2).flatten(-2))


class NeedsAllHeads(GroupedAttention):
    """Its code names the number of all heads."""

    def forward(self, hidden_states):
        q, k, v = (each(hidden_states) for each in (self.q_proj, self.k_proj, self.v_proj))
        q = q.view(*q.shape[:-1], HEADS, WIDTH).flatten(-2)
        return self.o_proj(attend(heads(q), heads(k), heads(v)))


class MixesBackward(GroupedAttention):
    """Right forward; backward the gradient of all queries is normalized together."""

    def forward(self, hidden_states):
        q, k, v = (each(hidden_states) for each in (self.q_proj, self.k_proj, self.v_proj))
        q = _Normalized.apply(q)
        return self.o_proj(attend(heads(q), heads(k), heads(v)))


class _Normalized(torch.autograd.Function):
    @staticmethod
    def forward(_ctx, x):
        return x.clone()

    @staticmethod
    def backward(_ctx, gradient):
        return gradient / gradient.norm()


class FusedSlopes(FusedAttention):
    def forward(self, hidden_states):
        q, k, v = self.c_attn(hidden_states).split(self.split_size, -1)
        q = heads(q) * (1 + torch.arange(q.shape[-1] // WIDTH).view(-1, 1, 1))
        return self.resid_dropout(self.c_proj(attend(q, heads(k), heads(v))))


ELSE = "computes something else than beside the other heads"
GRADIENTS = "computes other gradients than beside the other heads"
WRONG = {
    "a norm over all queries": (NormsAllQueries, ELSE),
    "slopes by the number of the head": (SlopesByNumber, ELSE),
    "the number of all heads": (NeedsAllHeads, "raises RuntimeError: shape "),
    "a gradient of all heads": (MixesBackward, GRADIENTS),
    "the same in a block with one layer": (FusedSlopes, ELSE),
}


@pytest.mark.parametrize("sequences", [False, True], ids=["whole", "split"])
@pytest.mark.parametrize("what", WRONG)
def test_a_block_that_looks_at_all_heads_is_refused(gloo_ranks, what, sequences):
    kind, expected = WRONG[what]

    def body(_rank):
        mesh = init_mesh(2, 2, sequence_parallel=sequences)
        if kind is FusedSlopes:
            model = with_changed("h.1.attention", kind, GPT2)
        else:
            model = with_changed("layers.1.attention", kind)
        model = parallelize(model.double(), mesh)
        with pytest.raises(ValueError) as error:
            model(TOKENS)
        return str(error.value)

    for text in gloo_ranks.run(4, body, backend="gloo"):
        assert f".1.attention: {kind.__name__} cannot be split: on the heads of rank " in text
        assert expected in text


class OwnMask(GroupedAttention):
    """Takes a mask, and a cache to be filled, as blocks of transformers do."""

    def forward(self, hidden_states, mask=None, cache=None):
        q, k, v = (heads(each(hidden_states)) for each in (self.q_proj, self.k_proj, self.v_proj))
        if cache is not None:
            cache.update({"keys": k, "calls": cache.get("calls", 0) + 1})
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], 1) for x in (k, v))
        made = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(made.transpose(1, 2).flatten(-2))


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.cache = OwnMask(), {}

    def forward(self, x):
        mask = torch.ones(x.shape[0], 1, x.shape[1], x.shape[1], dtype=torch.bool).tril()
        return self.attention(x, mask=mask, cache=self.cache)


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_masks_are_passed_on_and_a_cache_is_left_alone(gloo_ranks, kind):
    """Of a long batch, only some sequences and tokens are tried."""

    def body(_rank):
        mesh = init_mesh(2, 2)
        model = with_changed("layers.1.attention", Masked).to(kind)
        model.layers[0].attention = Masked().to(kind)
        model = parallelize(model, mesh)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model(torch.arange(37).repeat(7, 5))
        return [layer.attention.cache["calls"] for layer in model.layers]

    for calls in gloo_ranks.run(4, body, backend="gloo"):
        assert calls == [1, 1]


class NeverAlone(GroupedAttention):
    """Cannot run without its own layers."""

    def forward(self, hidden_states):
        assert self.k_proj.weight.dim() == 2
        return super().forward(hidden_states)


def test_a_block_that_cannot_be_tried_is_warned_of(gloo_ranks):
    def body(_rank):
        model = with_changed("layers.1.attention", NeverAlone).double()
        model = parallelize(model, init_mesh(2, 2))
        with pytest.warns(UserWarning) as said:
            model(TOKENS)
            model(TOKENS)
        return [str(each.message) for each in said]

    for said in gloo_ranks.run(4, body, backend="gloo"):
        assert len(said) == 1
        assert "layers.1.attention: could not check that NeverAlone treats its heads" in said[0]
