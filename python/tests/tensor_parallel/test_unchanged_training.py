"""Unmodified models train as the unsharded ones do, with and without sequence parallelism: dropout,
checkpointed blocks, DTensors, and a plan of one's own."""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import atp.torch  # noqa: F401 (the ring)
from atp.tensor_parallel import (
    Column,
    full_state_dict,
    init_mesh,
    parallelize,
    plan_of,
    vocabulary_parallel_cross_entropy,
)
from atp.tensor_parallel.sharding import Cut, cuts_of

from .comparing import COLUMNS, outcome_of
from .lookalikes import GPT2, HIDDEN, MODELS, VOCABULARY, Llama, make
from .test_unchanged_everywhere import (
    BATCH,
    SEQUENCE,
    SEQUENCES,
    batch,
    cuts_of_results,
    mesh_of,
    results,
)

TOKENS = Cut(1, 2)


class Checkpointing(GPT2):
    """reentrant: as torch.utils.checkpoint's use_reentrant; None: no checkpoints."""

    reentrant = None

    def forward(self, tokens):
        x = self.drop(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1])))
        for block in self.h:
            if self.reentrant is None:
                x = block(x)
            else:
                x = checkpoint(block, x, use_reentrant=self.reentrant)
        return self.lm_head(self.ln_f(x))


def dropping(p=0.5):
    model = make(Checkpointing)
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = p
    return model


def masks_of(model):
    """{dropout: what it multiplied by}, of the model's next run."""
    found = {}

    def note(name):
        def hook(_module, inputs, output):
            found.setdefault(name, output.detach() / inputs[0].detach())

        return hook

    for name, module in model.named_modules():
        if name.endswith(("drop", "resid_dropout", "feed_forward.dropout")):
            module.register_forward_hook(note(name))
    return found


class Multiply(nn.Module):
    def __init__(self, mask):
        super().__init__()
        self.mask = mask

    def forward(self, x):
        return x * self.mask


@pytest.mark.parametrize("sequences", SEQUENCES)
def test_dropouts_differ_where_tokens_do_and_the_gradients_match_their_masks(gloo_ranks, sequences):
    """The unsharded model with the ranks' masks has the same gradients."""
    shape = (2, 2)

    def body(_rank):
        mesh = mesh_of(shape, 4, sequences)
        model = parallelize(dropping(), mesh)
        masks = masks_of(model)
        found = results(model)
        return mesh.row, mesh.column, masks, found, cuts_of_results(model)

    said = gloo_ranks.run(4, body, backend="gloo")
    places = {(row, column): masks for row, column, masks, _, _ in said}
    inside = [name for name in said[0][2] if name != "drop"]
    assert len(inside) == 4
    for column in (0, 1):
        assert torch.equal(places[0, column]["drop"], places[1, column]["drop"])
    for name in inside:
        different = {str(masks[name].tolist()) for masks in places.values()}
        assert len(different) == (4 if SEQUENCES[sequences] else 2)
    whole = dropping()
    for name in said[0][2]:
        cut = TOKENS if SEQUENCES[sequences] and name != "drop" else COLUMNS
        mask = cut.assemble(
            torch.empty(BATCH, SEQUENCE, HIDDEN, dtype=torch.float64),
            shape,
            lambda row, column, name=name: places[row, column][name],
        )
        assert set(mask.unique().tolist()) == {0.0, 2.0}
        parent, _, last = name.rpartition(".")
        setattr(whole.get_submodule(parent), last, Multiply(mask))
    expected = results(whole)
    for row, column, _, found, cuts in said:
        for name, piece in found.items():
            own = cuts[name].take(expected[name], shape, row, column)
            assert float((piece - own).norm()) <= 1e-12 * float(expected[name].norm()), name


def test_checkpointed_blocks_have_the_same_gradients_and_masks(gloo_ranks):
    def body(_rank):
        mesh = init_mesh(2, 2, sequence_parallel=True)
        model = parallelize(dropping(), mesh)
        found = []
        for reentrant in (True, None, False):
            model.reentrant, mesh.randomness.batches = reentrant, 0
            found.append(results(model))
        one, *others = found
        assert float(one["loss"]) > 0
        return [float((one[name] - other[name]).abs().max()) for other in others for name in one]

    for found in gloo_ranks.run(4, body, backend="gloo"):
        assert max(found) <= 1e-12


@pytest.mark.parametrize("shape", [(2, 1), (2, 2)])
def test_it_trains_with_dtensors(gloo_ranks, shape):
    def train(model):
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        losses = []
        for _ in range(4):
            losses.append(float(results(model)["loss"]))
            optimizer.step()
        return losses

    whole = make(Llama)
    expected = train(whole)

    def body(_rank):
        mesh = init_mesh(*shape, algorithm="ring", sequence_parallel=True)
        model = parallelize(make(Llama), mesh, dtensors=True)
        losses = train(model)
        state, wanted = full_state_dict(model), whole.state_dict()
        worst = max(float((state[name] - wanted[name]).abs().max()) for name in wanted)
        return max(abs(a / b - 1) for a, b in zip(losses, expected, strict=True)), worst

    for of_losses, of_weights in gloo_ranks.run(shape[0] * shape[1], body, backend="gloo"):
        assert of_losses < 1e-10
        assert of_weights < 1e-8


def test_a_plan_of_ones_own_may_keep_their_attention(gloo_ranks):
    """With Column each row has a part of the logits, and tokens are split before the blocks."""

    def run(model, loss_of):
        tokens = batch()
        loss_of(model(tokens), tokens).backward()
        return {name: parameter.grad for name, parameter in model.named_parameters()}

    def whole_loss(logits, targets):
        return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def body(_rank):
        worst = []
        for kind, shape in itertools.product(MODELS.values(), [(4, 1), (2, 2)]):
            mesh = init_mesh(*shape, sequence_parallel=True)
            plan = {**plan_of(make(kind)), "lm_head": Column()}
            model, expected = parallelize(make(kind), plan, mesh), run(make(kind), whole_loss)
            found = run(
                model,
                lambda logits, targets: vocabulary_parallel_cross_entropy(
                    logits, targets, vocabulary=VOCABULARY
                ),
            )
            worst.append(outcome_of(found, cuts_of(model), expected, mesh).error)
            mesh.close()
        return worst

    for errors in gloo_ranks.run(4, body, backend="gloo"):
        assert max(errors) < 1e-12
