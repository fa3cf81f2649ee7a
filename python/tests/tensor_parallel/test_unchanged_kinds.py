"""Unmodified models with the norms, projections and parameters of other families than GPT-2's and
Llama's: on a mesh they compute what they did, and checkpoints have whole parameters."""

import pytest
import torch
from torch import nn

from atp.tensor_parallel import full_state_dict, grad_norm, init_mesh, parallelize
from atp.tensor_parallel.sharding import Cut, cuts_of

from .comparing import assert_copies_are_equal, outcome_of
from .lookalikes import (
    GPT2,
    HEADS,
    HIDDEN,
    KV_HEADS,
    WIDTH,
    FusedAttention,
    GatedFeedForward,
    GroupedAttention,
    Llama,
    LlamaRMSNorm,
    attend,
    heads,
    make,
)
from .test_unchanged import MESHES, results

EXPERTS, INNER = 3, 48


class NormOfHeads(nn.Module):
    """Like Cohere's: a weight for each head."""

    def __init__(self, number):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(number, WIDTH))

    def forward(self, x):
        return nn.functional.layer_norm(x, x.shape[-1:]) * self.weight


class NormedAttention(GroupedAttention):
    """q_norm and k_norm, over each head or over all of them."""

    def __init__(self, norm, before_view=False):
        super().__init__()
        self.before_view = before_view
        width = WIDTH if norm is LlamaRMSNorm else 1
        of_queries, of_keys = (HEADS, KV_HEADS) if before_view or width == 1 else (1, 1)
        self.q_norm, self.k_norm = norm(of_queries * width), norm(of_keys * width)

    def forward(self, hidden_states):
        q, k, v = (each(hidden_states) for each in (self.q_proj, self.k_proj, self.v_proj))
        if self.before_view:
            q, k = self.q_norm(q), self.k_norm(k)
        q, k = (x.unflatten(-1, (-1, WIDTH)) for x in (q, k))
        if not self.before_view:
            q, k = self.q_norm(q), self.k_norm(k)
        return self.o_proj(attend(q.transpose(1, 2), k.transpose(1, 2), heads(v)))


class GatedAttention(GroupedAttention):
    """A gate for each value of the heads, and a factor for each head."""

    def __init__(self):
        super().__init__()
        self.gate_proj = nn.Linear(HIDDEN, HEADS * WIDTH)
        self.sinks = nn.Parameter(torch.randn(HEADS))

    def forward(self, hidden_states):
        q, k, v = (heads(each(hidden_states)) for each in (self.q_proj, self.k_proj, self.v_proj))
        made = attend(q * self.sinks[:, None, None], k, v)
        return self.o_proj(made * self.gate_proj(hidden_states).sigmoid())


class HeadByHead(FusedAttention):
    """Like GPT-NeoX's: one head's query, key and value, then the next head's."""

    def forward(self, hidden_states):
        x = self.c_attn(hidden_states).unflatten(-1, (-1, 3 * WIDTH)).transpose(1, 2)
        return self.resid_dropout(self.c_proj(attend(*x.split(WIDTH, -1))))


class GemmaRMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.randn(width) / 4), 1e-6

    def forward(self, x):
        return nn.functional.rms_norm(x, x.shape[-1:], 1 + self.weight, self.eps)


class BareLayerNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.normalized_shape = (width,)

    def forward(self, x):
        return nn.functional.layer_norm(x, self.normalized_shape)


class TopKRouter(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, HIDDEN))

    def forward(self, x):
        logits = nn.functional.linear(x, self.weight)
        values, chosen = logits.softmax(-1).topk(2, -1)
        return logits, values, chosen


class Experts(nn.Module):
    """Like Mixtral's, or with gate and up side by side and biases, as in gpt-oss."""

    def __init__(self, interleaved):
        super().__init__()
        self.interleaved = interleaved
        self.gate_up_proj = nn.Parameter(torch.randn(EXPERTS, 2 * INNER, HIDDEN) / 4)
        self.down_proj = nn.Parameter(torch.randn(EXPERTS, HIDDEN, INNER) / 4)
        bias = torch.randn(EXPERTS, HIDDEN) if interleaved else None
        self.down_proj_offset = None if bias is None else nn.Parameter(bias)

    def forward(self, x, chosen, weights):
        made = torch.zeros_like(x)
        for number in range(EXPERTS):
            place, token = torch.where((chosen == number).mT)
            both = nn.functional.linear(x[token], self.gate_up_proj[number])
            gate, up = (both[..., ::2], both[..., 1::2]) if self.interleaved else both.chunk(2, -1)
            one = (gate.sigmoid() * up) @ self.down_proj[number].mT
            if self.down_proj_offset is not None:
                one = one + self.down_proj_offset[number]
            made = made.index_add(0, token, one * weights[token, place, None])
        return made


class MixtureOfExperts(nn.Module):
    """With a shared expert, and a gate of it."""

    def __init__(self, interleaved):
        super().__init__()
        self.hidden_size = HIDDEN
        self.router, self.experts = TopKRouter(), Experts(interleaved)
        self.shared_expert, self.shared_expert_gate = GatedFeedForward(), nn.Linear(HIDDEN, 1)

    def forward(self, x):
        tokens = x.reshape(-1, x.shape[-1])
        _, weights, chosen = self.router(tokens)
        shared = self.shared_expert_gate(tokens).sigmoid() * self.shared_expert(tokens)
        made = self.experts(tokens, chosen, weights) + shared
        return made.view(*x.shape[:2], self.hidden_size)


class FusedFeedForward(nn.Module):
    """One layer for gate and up, as in Phi-3."""

    def __init__(self):
        super().__init__()
        self.gate_up_proj = nn.Linear(HIDDEN, 2 * INNER)
        self.down_proj, self.act = nn.Linear(INNER, HIDDEN), nn.SiLU()

    def forward(self, x):
        gate, up = self.gate_up_proj(x).chunk(2, -1)
        return self.down_proj(up * self.act(gate))


class ScaledEmbedding(nn.Embedding):
    def forward(self, tokens):
        return super().forward(tokens) * HIDDEN**0.5


def with_feed_forward(build_one):
    def build():
        model = Llama()
        model.embed_tokens = ScaledEmbedding(*model.embed_tokens.weight.shape)
        for block in model.layers:
            block.feed_forward = build_one()
        return model

    return build


def with_attention(make_attention, kind=Llama):
    def build():
        model = kind()
        for block in model.h if kind is GPT2 else model.layers:
            block.attention = make_attention()
        return model

    return build


def with_norms(norm):
    def build():
        model = Llama()
        for block in model.layers:
            block.norm1, block.norm2 = norm(HIDDEN), norm(HIDDEN)
        return model

    return build


MODELS = {
    "norms of each query and key": with_attention(lambda: NormedAttention(LlamaRMSNorm)),
    "norms over the queries of all heads": with_attention(
        lambda: NormedAttention(LlamaRMSNorm, before_view=True)
    ),
    "norms with a weight for each head": with_attention(lambda: NormedAttention(NormOfHeads)),
    "gates and factors of heads": with_attention(GatedAttention),
    "one head after another": with_attention(HeadByHead, GPT2),
    "norms that add one to their weight": with_norms(GemmaRMSNorm),
    "norms without a weight": with_norms(BareLayerNorm),
    "gate and up in one layer": with_feed_forward(FusedFeedForward),
    "experts": with_feed_forward(lambda: MixtureOfExperts(interleaved=False)),
    "experts with biases": with_feed_forward(lambda: MixtureOfExperts(interleaved=True)),
}


def on_meshes(_rank):
    outcomes = {}
    for name, build in MODELS.items():
        before = make(build)
        whole = results(before)
        norm = torch.stack([p.grad.norm() for p in before.parameters()]).norm()
        for size, shapes in MESHES.items():
            for shape in shapes:
                mesh = init_mesh(*shape, data_parallel=4 // size)
                model = parallelize(make(build), mesh)
                everywhere = dict.fromkeys(("logits", "loss"), Cut())
                found = outcome_of(results(model), everywhere | cuts_of(model), whole, mesh)
                state, wanted = full_state_dict(model), before.state_dict()
                same = all(torch.equal(state[key], wanted[key]) for key in wanted)
                far = float((grad_norm(model) - norm).abs() / norm)
                outcomes[name, shape] = found, same, far
                mesh.close()
    return outcomes


@pytest.fixture(scope="module")
def outcomes(gloo_ranks):
    return gloo_ranks.run(4, on_meshes, backend="gloo")


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("mesh", [shape for shapes in MESHES.values() for shape in shapes])
def test_logits_loss_gradients_norm_and_state_are_those_of_the_whole_model(outcomes, mesh, name):
    for of_rank in outcomes:
        outcome, has_whole_state, far = of_rank[name, mesh]
        assert outcome.error < 1e-9, outcome.tensor
        assert has_whole_state
        assert far < 1e-9
    assert_copies_are_equal([of_rank[name, mesh][0] for of_rank in outcomes])
