"""A transformer of plain torch modules, to be run whole or passed to `parallelize`.

The tests use it as the reference, and it is an example of modules whose chunks can take turns.
"""

import dataclasses

import torch
from torch import nn

from atp.tensor_parallel.attention import causal_attention
from atp.tensor_parallel.overlap import Steps, apply, run

__all__ = ["Attention", "Block", "FeedForward", "Transformer", "TransformerConfig"]


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """gated, rms_norm, rotary and no biases make a Llama; the defaults make a GPT."""

    hidden: int
    heads: int
    layers: int = 1
    vocabulary: int = 256
    positions: int = 128
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    gated: bool = False
    rms_norm: bool = False
    rotary: bool = False
    fused_qkv: bool = True
    bias: bool = True
    tied_head: bool = True

    @property
    def kv(self) -> int:
        return self.kv_heads or self.heads

    @property
    def head_width(self) -> int:
        return self.head_dim or self.hidden // self.heads

    @property
    def ffn_width(self) -> int:
        return self.ffn or 4 * self.hidden

    def norm(self) -> nn.Module:
        return nn.RMSNorm(self.hidden, eps=1e-5) if self.rms_norm else nn.LayerNorm(self.hidden)


class RotaryAttention:
    """causal_attention with rotated queries and keys."""

    def __init__(self, width: int, base: float = 10000.0):
        self._rates = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)

    def __call__(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        angles = torch.arange(q.shape[1], dtype=torch.float64).unsqueeze(-1) * self._rates
        turn = (angles.cos().to(q).unsqueeze(1), angles.sin().to(q).unsqueeze(1))
        return causal_attention(_rotate(q, *turn), _rotate(k, *turn), v)


def _rotate(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), -1)


class Attention(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.head_width = config.head_width
        kv = config.kv * config.head_width
        self.widths = (config.heads * config.head_width, kv, kv)
        if config.fused_qkv:
            self.qkv = nn.Linear(config.hidden, sum(self.widths), bias=config.bias)
        else:
            for name, width in zip("qkv", self.widths, strict=True):
                self.add_module(name, nn.Linear(config.hidden, width, bias=config.bias))
        self.out = nn.Linear(self.widths[0], config.hidden, bias=config.bias)
        self.core = RotaryAttention(config.head_width) if config.rotary else causal_attention

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "qkv"):
            parts = self.qkv(x).split(self.widths, -1)
        else:
            parts = self.q(x), self.k(x), self.v(x)
        q, k, v = (part.unflatten(-1, (-1, self.head_width)) for part in parts)
        return self.out(self.core(q, k, v).flatten(-2))


def gelu(x: torch.Tensor) -> torch.Tensor:
    return nn.functional.gelu(x, approximate="tanh")


def swiglu(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    return nn.functional.silu(gate) * up


class FeedForward(nn.Module):
    def __init__(self, config: TransformerConfig):
        super().__init__()
        if config.gated:
            self.gate = nn.Linear(config.hidden, config.ffn_width, bias=config.bias)
        self.up = nn.Linear(config.hidden, config.ffn_width, bias=config.bias)
        self.down = nn.Linear(config.ffn_width, config.hidden, bias=config.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if hasattr(self, "gate"):
            return self.down(swiglu(self.gate(x), self.up(x)))
        return self.down(gelu(self.up(x)))


class Block(nn.Module):
    """x + attention(norm(x)), then the same with the feed-forward block."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.norm1, self.attention = config.norm(), Attention(config)
        self.norm2, self.feed_forward = config.norm(), FeedForward(config)

    def steps(self, x: torch.Tensor) -> Steps:
        x = x + (yield from apply(self.attention, self.norm1(x)))
        return x + (yield from apply(self.feed_forward, self.norm2(x)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return run(self.steps(x))


class Transformer(nn.Module):
    """Token numbers [b, s] -> logits [b, s, V]."""

    def __init__(self, config: TransformerConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.vocabulary, config.hidden)
        self.positions = None if config.rotary else nn.Embedding(config.positions, config.hidden)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = config.norm()
        self.head = nn.Linear(config.hidden, config.vocabulary, bias=False)
        # As in GPT-2. With torch's standard deviation of 1 the positions would drown the tokens,
        # and in hundreds of steps the model would learn only how frequent tokens are.
        nn.init.normal_(self.tokens.weight, std=0.02)
        if self.positions is not None:
            nn.init.normal_(self.positions.weight, std=0.02)
        if config.tied_head:
            self.head.weight = self.tokens.weight

    def steps(self, tokens: torch.Tensor) -> Steps:
        x = yield from apply(self.tokens, tokens)
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = yield from block.steps(x)
        return (yield from apply(self.head, self.norm(x)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return run(self.steps(tokens))
