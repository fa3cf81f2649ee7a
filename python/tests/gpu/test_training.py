"""Models on a GPU train over atp as on the CPU."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from ..test_ddp import make_model
from ..test_two_level_hook import Uneven, gradients, grid

RANKS = 4


def weights_after_training(model, rank, device, steps=5):
    """Trains on this rank's data, the same on every device."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        inputs = torch.randn(16, 20, generator=generator).to(device)
        targets = torch.randint(5, (16,), generator=generator).to(device)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    full = (p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters())
    return [parameter.detach().cpu() for parameter in full]


def replicated(hook):
    def prepare(device):
        model = DistributedDataParallel(make_model().to(device), bucket_cap_mb=0.01)
        if hook is not None:
            model.register_comm_hook(None, hook)
        return model

    return prepare


def fully_sharded(device):
    model = make_model().to(device)
    model[1].track_running_stats = False
    return fully_shard(model, mesh=init_device_mesh(device, (RANKS,)))


KINDS = {
    "DDP": replicated(None),
    "DDP with ddp_hook": replicated(atp.torch.ddp_hook),
    "DDP with int16_hook": replicated(atp.torch.int16_hook),
    "FSDP2": fully_sharded,
}


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_equal_on_all_ranks_and_close_to_the_cpus(ranks, kind, algorithm):
    def body(rank):
        return [
            weights_after_training(KINDS[kind](device), rank, device) for device in ("cuda", "cpu")
        ]

    results = ranks.run(RANKS, body, pg_options=atp.torch.Options(algorithm=algorithm))
    for on_gpu, on_cpu in results:
        torch.testing.assert_close(on_gpu, on_cpu, rtol=1e-3, atol=1e-4)
        for ours, firsts in zip(on_gpu, results[0][0], strict=True):
            assert torch.equal(ours, firsts)


@pytest.mark.parametrize("inside, hosts, intra", [(1, 3, "nccl"), (2, 2, "gloo"), (2, 2, "atp")])
def test_the_two_level_hook_averages_gradients(ranks, inside, hosts, intra):
    """NCCL accepts only one rank per GPU."""

    def body(rank):
        hooked = DistributedDataParallel(Uneven().cuda(), bucket_cap_mb=0.01)
        groups = grid(rank, inside, hosts, intra)
        hooked.register_comm_hook(None, atp.torch.two_level_hook(*groups))
        gloo = dist.new_group(backend="gloo")
        plain = DistributedDataParallel(Uneven(), process_group=gloo, bucket_cap_mb=0.01)
        found = gradients(hooked, rank, device="cuda")
        assert all(gradient.is_cuda for step in found for gradient in step)
        found = [[gradient.cpu() for gradient in step] for step in found]
        for ours, expected in zip(found, gradients(plain, rank), strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)
        return [[gradient.sum().item() for gradient in step] for step in found]

    results = ranks.run(inside * hosts, body)
    assert all(result == results[0] for result in results)
