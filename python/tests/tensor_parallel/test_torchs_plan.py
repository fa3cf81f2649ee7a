"""The plan for torch's parallelize_module trains the same model as our mesh (N, 1)."""

import dataclasses
import re

import pytest
import torch
from torch.distributed.tensor.parallel import parallelize_module

from atp.tensor_parallel import (
    init_mesh,
    parallelize,
    parallelize_module_plan,
    vocabulary_parallel_cross_entropy,
)

from . import lookalikes
from .test_models import GPT, LLAMA, make, train, whole_loss

UNFUSED = dataclasses.replace(GPT, fused_qkv=False)
LLAMA_UNFUSED = dataclasses.replace(LLAMA, fused_qkv=False)


@pytest.mark.parametrize("config", [UNFUSED, LLAMA_UNFUSED], ids=["GPT", "Llama"])
def test_torchs_own_tensor_parallelism_trains_the_same(gloo_ranks, config):
    def body(_rank):
        mesh = init_mesh(4, 1)
        ours = train(parallelize(make(config)), vocabulary_parallel_cross_entropy)
        theirs = make(config)
        plan = parallelize_module_plan(theirs, 4)
        theirs = parallelize_module(theirs, mesh.device_mesh["tp1"], plan)
        return ours, train(theirs, whole_loss)

    for ours, theirs in gloo_ranks.run(4, body, backend="gloo"):
        assert ours == pytest.approx(theirs, rel=1e-10)


def test_a_model_like_transformers_llama_computes_the_same(gloo_ranks):
    tokens = torch.arange(24).view(2, 12)
    expected = lookalikes.make(lookalikes.Llama)(tokens)

    def body(_rank):
        mesh = init_mesh(2, 1)
        model = lookalikes.make(lookalikes.Llama)
        plan = parallelize_module_plan(model, 2)
        model = parallelize_module(model, mesh.device_mesh["tp1"], plan)
        return model(tokens).detach()

    for logits in gloo_ranks.run(2, body, backend="gloo"):
        torch.testing.assert_close(logits, expected)


def test_it_splits_every_matrix_except_a_shared_one():
    layers = {"attention.q", "attention.k", "attention.v", "attention.out",
              "feed_forward.up", "feed_forward.down"}  # fmt: skip
    blocks = {f"blocks.{number}.{name}" for number in range(2) for name in layers}
    assert parallelize_module_plan(make(UNFUSED), 4).keys() == blocks
    separate = dataclasses.replace(UNFUSED, tied_head=False)
    assert parallelize_module_plan(make(separate), 4).keys() == blocks | {"tokens", "head"}


def conv1d_feed_forward():
    return lookalikes.with_changed("layers.1.feed_forward", lookalikes.ConvolutionalFeedForward)


REFUSED = {
    "one layer for queries, keys and values": (
        lambda: make(GPT),
        4,
        "blocks.0.attention.qkv: torch's parallelize_module cannot split one layer",
    ),
    "a GPT-2": (
        lambda: lookalikes.make(lookalikes.GPT2),
        4,
        "h.0.attention.c_attn: torch's parallelize_module cannot split one layer",
    ),
    "a Conv1D": (
        conv1d_feed_forward,
        2,
        "layers.1.feed_forward.c_fc: torch's parallelize_module splits nn.Linear and "
        "nn.Embedding, not Conv1D",
    ),
    "fewer key-value heads than ranks": (
        lambda: lookalikes.make(lookalikes.Llama),
        4,
        "layers.0.attention: 4 ranks cannot share 2 key-value heads equally",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_torch_cannot_split_is_named(what):
    model, ranks, message = REFUSED[what]
    with pytest.raises(ValueError, match=re.escape(message)):
        parallelize_module_plan(model(), ranks)
