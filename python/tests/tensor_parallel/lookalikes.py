"""Models that look like GPT-2 and Llama of the library transformers.

The modules have transformers' names and their own forward passes. tests/real_programs tests the
same with transformers itself.
"""

import torch
from torch import nn

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
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
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


def make(kind):
    torch.manual_seed(1)
    return kind().double()


def with_changed(path, replacement, kind=Llama):
    model = make(kind)
    parent, _, last = path.rpartition(".")
    setattr(model.get_submodule(parent), last, replacement())
    return model
