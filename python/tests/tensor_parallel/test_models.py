"""Whole models: loss and gradients, checkpoints, replicas, and training together with DDP."""

import dataclasses
import itertools

import pytest
import torch

from atp.tensor_parallel import (
    Transformer,
    TransformerConfig,
    full_state_dict,
    init_mesh,
    parallelize,
    vocabulary_parallel_cross_entropy,
)

from .comparing import assert_replicas_are_equal, largest_error

GPT = TransformerConfig(hidden=32, heads=8, layers=2, vocabulary=64, positions=16)
LLAMA = dataclasses.replace(
    GPT, kv_heads=4, ffn=48, gated=True, rms_norm=True, rotary=True, bias=False, tied_head=False
)
MESHES = [(8, 1), (4, 2), (2, 4), (1, 8)]
STEPS = 6


def make(config, seed=1) -> Transformer:
    torch.manual_seed(seed)
    return Transformer(config).double()


def batch(step: int, size: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences that can be learned: each token is the one before it plus a number of its own."""
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


def train_whole(config):
    model = make(config)
    losses = train(model, whole_loss)
    return losses, model.state_dict()


def train_everywhere(_rank):
    """{(mesh, model): (relative differences of losses, of the trained model)}."""
    outcomes = {}
    for (name, config), shape in itertools.product({"GPT": GPT, "Llama": LLAMA}.items(), MESHES):
        expected_losses, expected_state = train_whole(config)
        mesh = init_mesh(*shape, data_parallel=8 // (shape[0] * shape[1]))
        model = parallelize(make(config), chunks=2 if shape[1] == 2 else 1)
        losses = train(model, lambda a, b, m=mesh: vocabulary_parallel_cross_entropy(a, b, m))
        for parameter in model.parameters():
            assert_replicas_are_equal(pieces_of(parameter), mesh)
        difference = max(abs(a - b) / b for a, b in zip(losses, expected_losses, strict=True))
        outcomes[shape, name] = difference, largest_error(full_state_dict(model), expected_state)
        mesh.close()
    return outcomes


def pieces_of(parameter):
    piece = parameter.detach()
    piece.atp_cut = parameter.atp_cut
    return piece


@pytest.fixture(scope="module")
def trained(gloo_ranks):
    return gloo_ranks.run(8, train_everywhere, backend="gloo")


@pytest.mark.parametrize("name", ["GPT", "Llama"])
@pytest.mark.parametrize("mesh", MESHES)
def test_training_goes_as_it_does_unsharded(trained, mesh, name):
    for outcome in trained:
        of_losses, (of_state, tensor) = outcome[mesh, name]
        assert of_losses < 1e-10
        assert of_state < 1e-8, tensor
