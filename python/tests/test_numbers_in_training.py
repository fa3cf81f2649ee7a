"""The number format in training: small gradients next to large ones still move parameters."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    RowwiseParallel,
    parallelize_module,
)
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from .numbers_oracle import BLOCK

W = 4
STEPS = 200
SMALL = 1e-9


class TwoBranches(torch.nn.Module):
    """Two branches of 2,632 parameters each; the gradients of one are 1e-9 times the other's."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.small, self.large = (
            torch.nn.Sequential(
                torch.nn.Linear(40, 60), torch.nn.Tanh(), torch.nn.Linear(60, 2), torch.nn.Tanh()
            )
            for _ in range(2)
        )
        for branch in (self.small, self.large):
            branch.append(torch.nn.Linear(2, 25, bias=False))

    def forward(self, x):
        return self.large(x) + SMALL * self.small(x)


def train(model, rank):
    """The parameters that have changed."""
    before = [p.detach().clone() for p in model.parameters()]
    # An epsilon far below the gradients; a larger one would by itself stop the small ones.
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-16)
    draw = torch.Generator().manual_seed(rank)
    for _ in range(STEPS):
        x = torch.randn(8, 40, generator=draw)
        loss = (model(x) - x[:, :25]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    after = [p.detach() for p in model.parameters()]
    return torch.cat([(a != b).flatten() for a, b in zip(after, before, strict=True)]).numpy()


def sum_as_one_tensor(model, orders):
    """A hook that passes no boundaries, and records the parameters' order in each bucket."""
    places = {id(p): place for place, p in enumerate(model.parameters())}

    def hook(_state, bucket):
        orders.add(tuple(places[id(p)] for p in bucket.parameters()))
        work = dist.all_reduce(bucket.buffer(), op=dist.ReduceOp.AVG, async_op=True)
        return work.get_future().then(lambda f: f.value()[0])

    return hook


def beside_large_ones(orders):
    """The parameters of the small branch that ever share a block with the large one."""
    lengths = [p.numel() for p in TwoBranches().parameters()]
    begins = np.cumsum([0, *lengths])
    is_small = np.arange(begins[-1]) < begins[len(lengths) // 2]
    shares = np.zeros_like(is_small)
    for order in orders:
        bucket = np.concatenate([np.arange(begins[p], begins[p + 1]) for p in order])
        for begin in range(0, len(bucket), BLOCK):
            block = bucket[begin : begin + BLOCK]
            if not is_small[block].all():
                shares[block] |= is_small[block]
    return shares


def moved_over_gloo(rank, group):
    return train(DistributedDataParallel(TwoBranches(), process_group=group), rank)


def test_with_the_hook_every_parameter_moves_that_moves_over_gloo(ranks):
    def body(rank):
        model = DistributedDataParallel(TwoBranches())
        model.register_comm_hook(None, atp.torch.ddp_hook)
        return train(model, rank), moved_over_gloo(rank, dist.new_group(backend="gloo"))

    for ours, theirs in ranks.run(W, body):
        print(f"of {len(ours)} parameters {theirs.sum()} move over Gloo, {ours.sum()} over atp")
        assert theirs.sum() > 0.9 * len(theirs)
        assert not np.any(theirs & ~ours)


def test_without_boundaries_only_parameters_in_a_block_with_much_larger_ones_stay(ranks):
    def body(rank):
        model, orders = DistributedDataParallel(TwoBranches()), set()
        model.register_comm_hook(None, sum_as_one_tensor(model.module, orders))
        ours = train(model, rank)
        return ours, moved_over_gloo(rank, dist.new_group(backend="gloo")), orders

    for ours, theirs, orders in ranks.run(W, body):
        stays, may_stay = theirs & ~ours, beside_large_ones(orders)
        print(f"{stays.sum()} stay that move over Gloo; {may_stay.sum()} share a large one's block")
        assert not np.any(stays & ~may_stay)
        assert may_stay.mean() < 0.5  # otherwise the test proves nothing


class FeedForward(torch.nn.Module):
    """Hidden as wide as its input, so that all its sums have one length."""

    def __init__(self, width):
        super().__init__()
        torch.manual_seed(5)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(x)))


WIDTH, LAYERS, LOSS_FACTOR = 64, 3, 1e-5


def gradients(model, dtype):
    """The gradients of three steps without any update; the loss is tiny."""
    steps = []
    for step in range(3):
        x = torch.randn(32, WIDTH, generator=torch.Generator().manual_seed(step)).to(dtype)
        model.zero_grad()
        (LOSS_FACTOR * model(x).square().mean()).backward()
        steps.append([p.grad.clone() for p in model.parameters()])
    return steps


def make(dtype=torch.float32):
    layers = [FeedForward(WIDTH) for _ in range(LAYERS)]
    return torch.nn.Sequential(*layers).to(dtype)


def parallel(backend):
    options = {"tp": backend}
    mesh = init_device_mesh("cpu", (W,), mesh_dim_names=("tp",), backend_override=options)
    plan = {
        f"{layer}.{name}": style()
        for layer in range(LAYERS)
        for name, style in (("up", ColwiseParallel), ("down", RowwiseParallel))
    }
    return parallelize_module(make(), mesh, plan)


def errors(steps, expected):
    """Each gradient's largest error, relative to its largest value."""
    return [
        ((ours.double() - true).abs().max() / true.abs().max()).item()
        for own, all_true in zip(steps, expected, strict=True)
        for ours, true in zip(own, all_true, strict=True)
    ]


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_torchs_tensor_parallelism_with_a_tiny_loss_matches_one_processs_gradients(
    ranks, algorithm
):
    def body(_rank):
        found = {}
        for name, backend in (
            ("atp", ("atp", atp.torch.Options(algorithm=algorithm))),
            ("gloo", ("gloo", None)),
        ):
            steps = gradients(parallel(backend), torch.float32)
            found[name] = [[g.full_tensor() for g in step] for step in steps]
        return found

    expected = gradients(make(torch.float64), torch.float64)
    for found in ranks.run(W, body):
        ours, theirs = errors(found["atp"], expected), errors(found["gloo"], expected)
        print(f"largest relative error of a gradient: atp {max(ours):.1e}, Gloo {max(theirs):.1e}")
        # Sums lose W 2^c 2^-30 of a block's largest value; the products of float32 far more.
        assert max(ours) <= 2 * max(theirs) + W * 2.0**2 * 2.0**-30
