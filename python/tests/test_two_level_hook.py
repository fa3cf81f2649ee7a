"""atp.torch.two_level_hook: averages within hosts first, and between hosts by shares."""

import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from .test_ddp import digest, make_model, train


def grid(rank, inside=2, hosts=2, intra_backend="gloo", inter_backend="atp"):
    """A rank's groups; each host has consecutive ranks."""
    of = {}
    for host in range(hosts):
        members = list(range(host * inside, (host + 1) * inside))
        of["intra", host] = dist.new_group(members, backend=intra_backend)
    for place in range(inside):
        members = list(range(place, inside * hosts, inside))
        of["inter", place] = dist.new_group(members, backend=inter_backend)
    return of["intra", rank // inside], of["inter", rank % inside]


class Uneven(torch.nn.Module):
    """Gradients in several buckets, with lengths that no number of ranks divides."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(5)
        self.layers = torch.nn.Sequential(
            *(torch.nn.Linear(a, b) for a, b in ((7, 301), (301, 101), (101, 53), (53, 3)))
        )

    def forward(self, x):
        return self.layers(x)


def gradients(model, rank, steps=3, device="cpu"):
    found = []
    for step in range(steps):
        generator = torch.Generator().manual_seed(100 * step + rank)
        inputs = torch.randn(4, 7, generator=generator).to(device)
        model(inputs).square().sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
        model.zero_grad()
    return found


@pytest.mark.parametrize(
    "inside, hosts, backends",
    [
        (2, 2, ("gloo", "atp")),
        (2, 2, ("atp", "atp")),
        (2, 2, ("atp", "gloo")),
        (3, 2, ("gloo", "atp")),
        (1, 3, ("gloo", "atp")),
        (3, 1, ("gloo", "atp")),
    ],
)
def test_gradients_are_the_averages(ranks, inside, hosts, backends):
    def body(rank):
        hooked = DistributedDataParallel(Uneven(), bucket_cap_mb=0.01)
        groups = grid(rank, inside, hosts, *backends)
        hooked.register_comm_hook(None, atp.torch.two_level_hook(*groups))
        plain = DistributedDataParallel(
            Uneven(), process_group=dist.new_group(backend="gloo"), bucket_cap_mb=0.01
        )
        found, expected = gradients(hooked, rank), gradients(plain, rank)
        for ours, theirs in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)
        return digest(hooked), [[g.sum().item() for g in step] for step in found]

    results = ranks.run(inside * hosts, body)
    assert all(result == results[0] for result in results)


def test_a_model_trains_with_accumulated_gradients_and_unused_parameters(ranks):
    def body(rank):
        groups = grid(rank)
        models = []
        for hook in (atp.torch.two_level_hook(*groups), atp.torch.ddp_hook):
            model = DistributedDataParallel(make_model(), find_unused_parameters=True)
            model.register_comm_hook(None, hook)
            models.append(model)
        return [train(model, rank) for model in models], digest(models[0])

    results = ranks.run(4, body)
    assert len({weights for _, weights in results}) == 1
    for (losses, expected), _ in results:
        assert losses == pytest.approx(expected, rel=1e-4)


def test_a_small_layer_next_to_a_large_one_keeps_its_gradient(ranks):
    def body(rank):
        torch.manual_seed(3)
        large, small = (torch.nn.Linear(40, 30, bias=False) for _ in range(2))
        model = torch.nn.ModuleList([large, small])
        model.forward = lambda x: large(x) + 1e-9 * small(x)
        wrapped = DistributedDataParallel(model)
        wrapped.register_comm_hook(None, atp.torch.two_level_hook(*grid(rank)))
        x = torch.randn(8, 40, generator=torch.Generator().manual_seed(rank))
        wrapped(x).sum().backward()
        return large.weight.grad, small.weight.grad

    for large, small in ranks.run(4, body):
        torch.testing.assert_close(small, large * 1e-9, rtol=0, atol=3e-15)
        assert not (small == 0).any()


def test_groups_that_do_not_form_a_grid_are_refused(ranks):
    def body(rank):
        everyone, again = (dist.new_group(backend="gloo") for _ in range(2))
        for inter, what in ((again, "be in both"), (None, "found None")):
            with pytest.raises(ValueError, match=what):
                atp.torch.two_level_hook(everyone, inter)

    ranks.run(2, body)


def test_hosts_of_different_sizes_are_refused_at_every_rank(ranks):
    def body(rank):
        intra = [dist.new_group(members, backend="gloo") for members in ([0, 1, 2], [3, 4])]
        inter = [dist.new_group(members, backend="gloo") for members in ([0, 3], [1, 4], [2])]
        mine = intra[rank // 3], inter[rank % 3]
        with pytest.raises(ValueError, match="must have the same number of ranks, but found"):
            atp.torch.two_level_hook(*mine)

    ranks.run(5, body)


def test_groups_without_all_of_the_models_ranks_are_refused(ranks):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(3, 2))
        intra = [dist.new_group(members, backend="gloo") for members in ([0, 1], [2, 3])]
        inter = [dist.new_group([member], backend="gloo") for member in range(4)]
        hook = atp.torch.two_level_hook(intra[rank // 2], inter[rank])
        model.register_comm_hook(None, hook)
        with pytest.raises(ValueError, match="the model's 4 ranks, but found an intra_group of 2"):
            model(torch.ones(1, 3)).sum().backward()

    ranks.run(4, body)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
def test_gradients_of_other_types(ranks, dtype):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(5, 3, bias=False, dtype=dtype))
        model.register_comm_hook(None, atp.torch.two_level_hook(*grid(rank)))
        model(torch.full((1, 5), 1.0 + rank, dtype=dtype)).sum().backward()
        return model.module.weight.grad.unique().tolist()

    assert ranks.run(4, body) == [[2.5]] * 4


def test_a_rank_that_dies_between_hosts_ends_the_others_backward_pass(ranks):
    def body(rank):
        groups = grid(rank, intra_backend="atp")
        model = DistributedDataParallel(Uneven(), bucket_cap_mb=0.01)
        model.register_comm_hook(None, atp.torch.two_level_hook(*groups))
        gradients(model, rank, steps=1)
        if rank == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="rank"):
            gradients(model, rank, steps=1)

    outcomes = ranks.outcomes(4, body)
    assert [outcome.error for outcome in outcomes[:3]] == [None] * 3
