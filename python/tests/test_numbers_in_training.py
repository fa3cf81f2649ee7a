"""What the numbers do to a training: small gradients beside large ones move their parameters."""

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
FAR = 2.0**25  # times larger than what may vanish beside it


class TwoBranches(torch.nn.Module):
    """Two branches of 2,632 parameters each; the gradients of one are 1e-9 of the other's."""

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
    """Each parameter tensor before and after, and the gradients of the first step at this rank."""
    before = [p.detach().clone() for p in model.parameters()]
    # An epsilon far below the gradients, or it alone would keep the small ones where they are.
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


def moved_over(ranks, hook):
    """Which parameters moved over atp and over Gloo, and the lengths of the parameters."""

    def body(rank):
        gloo = dist.new_group(backend="gloo")
        ours = DistributedDataParallel(TwoBranches())
        theirs = DistributedDataParallel(TwoBranches(), process_group=gloo)
        if hook:
            ours.register_comm_hook(None, atp.torch.ddp_hook)
        return train(ours, rank), train(theirs, rank)

    return ranks.run(W, body)


def test_with_the_hook_every_parameter_moves_that_moves_over_gloo(ranks):
    for ours, theirs in moved_over(ranks, hook=True):
        print(f"of {len(ours)} parameters {theirs.sum()} move over Gloo, {ours.sum()} over atp")
        assert theirs.sum() > 0.9 * len(theirs)
        assert not np.any(theirs & ~ours)


def test_without_the_hook_only_those_stay_that_share_a_block_with_much_larger_ones(ranks):
    lengths = [p.numel() for p in TwoBranches().parameters()]
    small = sum(p.numel() for p in TwoBranches().small.parameters())
    # DDP fills its bucket from the last parameter; the two branches meet in one block at most.
    assert sum(lengths) > small > BLOCK
    for ours, theirs in moved_over(ranks, hook=False):
        stays = theirs & ~ours
        print(f"{stays.sum()} parameters stay that move over Gloo")
        assert stays.sum() < BLOCK
        assert not np.any(stays[small:])


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
    """Of three steps, one after the other, without any update; the loss is tiny."""
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
def test_torchs_tensor_parallelism_with_a_tiny_loss_has_the_gradients_of_one_process(
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
