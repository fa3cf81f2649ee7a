"""Whole models: loss and gradients, checkpoints, replicas, and training together with DDP."""

import copy
import dataclasses

import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import (
    EmbeddingRole,
    Norm,
    Transformer,
    TransformerConfig,
    clip_grad_norm_,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.sharding import cuts_of

from .comparing import assert_copies_are_equal, outcome_of

GPT = TransformerConfig(hidden=32, heads=8, layers=2, vocabulary=64, positions=16)
LLAMA = dataclasses.replace(
    GPT, kv_heads=4, ffn=48, gated=True, rms_norm=True, rotary=True, bias=False, tied_head=False
)
CONFIGS = {"GPT": GPT, "Llama": LLAMA}
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]
STEPS = 8


def make(config, seed=1, dtype=torch.float64) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(config).to(dtype)


def batch(step: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences that can be learned: each token is the previous one plus the sequence's number."""
    generator = torch.Generator().manual_seed(step)
    begin = torch.randint(64, (size, 1), generator=generator)
    stride = torch.randint(1, 4, (size, 1), generator=generator)
    tokens = (begin + stride * torch.arange(9)) % 64
    return tokens[:, :-1], tokens[:, 1:]


def train(model, loss_of, share=slice(None)) -> list[float]:
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS):
        tokens, targets = (tensor[share] for tensor in batch(step))
        loss = loss_of(model(tokens), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def whole_loss(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def train_whole(config, dtype=torch.float64):
    model = make(config, dtype=dtype)
    losses = train(model, whole_loss)
    return losses, model.state_dict()


def relative_difference(found: list[float], expected: list[float]) -> float:
    """The largest value; NaN if any is NaN."""
    wanted = torch.tensor(expected, dtype=torch.float64)
    return float(((torch.tensor(found, dtype=torch.float64) - wanted) / wanted).abs().max())


def train_everywhere(_rank):
    """{(mesh, model): (largest relative difference of a loss, outcome of the trained weights)}."""
    outcomes = {}
    for name, config in CONFIGS.items():
        expected_losses, expected_state = train_whole(config)
        for shape in MESHES:
            mesh = init_mesh(*shape, algorithm="ring")
            model = parallelize(make(config), chunks=2 if shape[1] == 2 else 1)
            losses = train(model, vocabulary_parallel_cross_entropy)
            difference = relative_difference(losses, expected_losses)
            state = model.state_dict(keep_vars=True)
            weights = outcome_of(state, cuts_of(model), expected_state, mesh)
            outcomes[shape, name] = difference, weights
            mesh.close()
    return outcomes


@pytest.fixture(scope="module")
def trained(gloo_ranks):
    return gloo_ranks.run(8, train_everywhere, backend="gloo")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("mesh", MESHES)
def test_training_matches_the_unsharded_model(trained, mesh, name):
    for outcome in trained:
        of_losses, of_state = outcome[mesh, name]
        assert of_losses < 1e-10
        assert of_state.error < 1e-8, of_state.tensor
    assert_copies_are_equal([outcome[mesh, name][1] for outcome in trained])


def test_replicas_that_ddp_keeps_together_train_as_one_model(gloo_ranks):
    """A job in three dimensions: two replicas of a mesh (2,2), each with half of the batch."""
    expected_losses, expected_state = train_whole(GPT)

    def body(rank):
        mesh = init_mesh(2, 2, data_parallel=2)
        model = parallelize(make(GPT))
        replica = DistributedDataParallel(model, process_group=mesh.data.group)
        half = slice(0, 4) if rank < 4 else slice(4, 8)
        losses = train(replica, vocabulary_parallel_cross_entropy, half)
        state = model.state_dict(keep_vars=True)
        return losses, outcome_of(state, cuts_of(model), expected_state, mesh)

    results = gloo_ranks.run(8, body, backend="gloo")
    for i, expected in enumerate(expected_losses):
        assert abs((results[0][0][i] + results[4][0][i]) / 2 - expected) < 1e-9
    assert max(outcome.error for _, outcome in results) < 1e-7
    assert_copies_are_equal([outcome for _, outcome in results])


@pytest.mark.parametrize("name", CONFIGS)
def test_the_norm_of_all_gradients_equals_the_whole_models(gloo_ranks, name):
    config = dataclasses.replace(CONFIGS[name], kv_heads=2)
    whole = make(config)
    tokens, targets = batch(0)
    whole_loss(whole(tokens), targets).backward()
    expected = float(torch.nn.utils.clip_grad_norm_(whole.parameters(), 0.1))
    bias = whole.blocks[0].attention.out.weight.grad

    def body(_rank):
        norms = []
        for shape in ((4, 1), (2, 2), (1, 4)):
            mesh = init_mesh(*shape)
            model = parallelize(make(config))
            vocabulary_parallel_cross_entropy(model(tokens), targets).backward()
            norms.append(float(clip_grad_norm_(model, 0.1)))
            weight = model.blocks[0].attention.out.weight
            cut = cuts_of(model)["blocks.0.attention.out.weight"]
            own = cut.take(bias, shape, mesh.row, mesh.column)
            assert torch.allclose(weight.grad, own, rtol=1e-10)
        return norms

    for norms in gloo_ranks.run(4, body, backend="gloo"):
        assert norms == pytest.approx([expected] * 3, rel=1e-12)


@pytest.mark.parametrize("kind", [torch.nn.LayerNorm, torch.nn.RMSNorm])
@pytest.mark.parametrize("with_weights", [True, False])
def test_a_norm_equals_torchs(gloo_ranks, kind, with_weights):
    whole = torch.nn.Sequential(kind(32, elementwise_affine=with_weights, dtype=torch.float64))
    x = torch.randn(3, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def body(_rank):
        mesh = init_mesh(1, 4)
        norm = parallelize(copy.deepcopy(whole), {"0": Norm()})
        own = slice(8 * mesh.column, 8 * (mesh.column + 1))
        return torch.allclose(norm(x[:, own]), whole(x)[:, own], rtol=1e-12, atol=1e-12)

    assert gloo_ranks.run(4, body, backend="gloo") == [True] * 4


def test_the_token_of_padding_gets_no_gradient(gloo_ranks):
    tokens = torch.tensor([[0, 3, 5, 3], [7, 3, 1, 0]])

    def make_table():
        torch.manual_seed(0)
        return nn.Sequential(nn.Embedding(8, 16, padding_idx=3).double())

    def body(_rank):
        mesh, whole = init_mesh(2, 2), make_table()
        model = parallelize(make_table(), {"0": EmbeddingRole()}, mesh)
        for one in (whole, model):
            one(tokens).sum().backward()  # the value of padding is 0, so its square has no gradient
        cut = cuts_of(model)["0.weight"]
        return torch.equal(
            model[0].weight.grad, cut.take(whole[0].weight.grad, mesh.shape, mesh.row, mesh.column)
        )

    assert gloo_ranks.run(4, body, backend="gloo") == [True] * 4
