"""Dropout: the same masks where a tensor is replicated, different ones where it is split; on every
mesh the gradients match the masks that were drawn."""

import copy

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from atp.tensor_parallel import (
    AttentionRole,
    FeedForwardRole,
    Norm,
    init_mesh,
    load,
    parallelize,
    save,
)
from atp.tensor_parallel.transformer import gelu

from .comparing import COLUMNS, GPT, inputs, make_block

MESHES = [(4, 1), (2, 2), (1, 4)]
PLAN = {
    "norm1": Norm(),
    "norm2": Norm(),
    "attention": AttentionRole(("qkv",), "out", 8, dropout="drop"),
    "feed_forward": FeedForwardRole(("up",), "down", gelu, dropout="drop"),
}


class Dropping(nn.Module):
    """A block with a GPT's dropouts, and one more after it."""

    def __init__(self, p=0.5):
        super().__init__()
        self.block = make_block(GPT, torch.float64)
        for part in (self.block.attention, self.block.feed_forward):
            part.drop = nn.Dropout(p)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        return self.drop(self.block(x))


def dropping(mesh, p=0.5):
    model = Dropping(p)
    return parallelize(model, {f"block.{name}": role for name, role in PLAN.items()}, mesh)


def ones(mesh):
    return COLUMNS.take(torch.ones(8, 3, 32, dtype=torch.float64), mesh.shape, 0, mesh.column)


def dropped_by(*dropouts):
    """A list to which each dropout that runs adds its mask."""
    dropped = []
    for module in dropouts:
        module.register_forward_hook(lambda _m, _x, y: dropped.append((y == 0).tolist()))
    return dropped


def masks(rank):
    """For every mesh: this rank's place, and the values that each dropout dropped."""
    found = {}
    for shape in MESHES:
        torch.manual_seed(0)
        mesh = init_mesh(*shape)
        model = dropping(mesh)
        torch.manual_seed(100 + rank)  # as careless users do
        dropped = dropped_by(
            model.block.attention.dropout, model.block.feed_forward.dropout, model.drop
        )
        before = torch.get_rng_state()
        for _ in range(2):
            model(ones(mesh).clone())
        assert torch.equal(torch.get_rng_state(), before)  # users' random numbers are unaffected
        model.eval()
        model(ones(mesh).clone())
        with mesh.randomness.batch(), mesh.randomness.of_rank(torch.device("cpu")):
            own = torch.rand(4).tolist()
        found[shape] = mesh.row, mesh.column, dropped, own
        mesh.close()
    return found


def test_masks_are_the_same_in_a_column_and_differ_elsewhere(gloo_ranks):
    results = gloo_ranks.run(4, masks, backend="gloo")
    for shape in MESHES:
        drawn = [result[shape] for result in results]
        by_column = {}
        for _, column, dropped, _ in drawn:
            assert by_column.setdefault(column, dropped) == dropped
        every = [str(mask) for dropped in by_column.values() for mask in dropped[:6]]
        assert len(set(every)) == len(every) == 6 * shape[1]  # two batches of three dropouts
        assert all(str(mask).count("True") == 0 for d in drawn for mask in d[2][6:])  # evaluation
        assert len({str(own) for _, _, _, own in drawn}) == 4


def test_a_checkpointed_block_draws_the_same_masks_again(gloo_ranks):
    """A copy of a model also runs on the same mesh."""

    def body(_rank):
        mesh = init_mesh(2, 2)
        model = dropping(mesh)
        other = copy.deepcopy(model)
        assert other.atp_mesh is mesh and other.block.attention.mesh is mesh

        class Saving(nn.Module):
            def __init__(self):
                super().__init__()
                self.block = other.block

            def forward(self, x):
                return other.drop(checkpoint(self.block, x, use_reentrant=False))

        other.forward = Saving().forward
        gradients = []
        for one in (model, other):
            mesh.randomness.batches = 7
            x = ones(mesh).clone().requires_grad_()
            one(x).square().sum().backward()
            gradients.append([x.grad, *(p.grad for p in one.parameters())])
        assert float(gradients[0][0].abs().sum()) > 0
        return all(torch.equal(a, b) for a, b in zip(*gradients, strict=True))

    assert gloo_ranks.run(4, body, backend="gloo") == [True] * 4


def test_a_checkpoint_continues_with_the_next_masks(gloo_ranks, tmp_path):
    def body(_rank):
        mesh = init_mesh(2, 2)
        model = dropping(mesh)
        model(ones(mesh).clone())
        save(model, tmp_path)
        expected = model(ones(mesh).clone())
        load(model, tmp_path)
        return torch.equal(model(ones(mesh).clone()), expected)

    assert gloo_ranks.run(4, body, backend="gloo") == [True] * 4


def test_training_with_dropout_in_the_core_keeps_copies_alike(gloo_ranks):
    """The core drops different values on every rank; replicated gradients stay equal."""

    def core(q, k, v):
        q, k, v = (x.transpose(1, 2) for x in (q, k, v))
        return nn.functional.scaled_dot_product_attention(q, k, v, dropout_p=0.3).transpose(1, 2)

    def body(rank):
        torch.manual_seed(0)
        mesh = init_mesh(2, 2)
        block = make_block(GPT, torch.float64)
        plan = PLAN | {"attention": AttentionRole(("qkv",), "out", 8, core=core)}
        plan["feed_forward"] = FeedForwardRole(("up",), "down", gelu)
        block = parallelize(block, plan, mesh)
        torch.manual_seed(rank)
        x = COLUMNS.take(inputs(torch.float64)[0], (2, 2), 0, mesh.column)
        first = block(x)
        first.square().sum().backward()
        bias = block.attention.out.bias.grad
        return mesh.column, first.detach(), bias, block(x).detach()

    results = gloo_ranks.run(4, body, backend="gloo")
    for column in (0, 1):
        a, b = (result for result in results if result[0] == column)
        assert torch.equal(a[1], b[1]) and torch.equal(a[2], b[2])
        assert not torch.equal(a[1], a[3])
