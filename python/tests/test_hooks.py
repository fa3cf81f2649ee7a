"""The communication hooks for DistributedDataParallel."""

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from .test_ddp import digest, make_model, train

HOOKS = {"ddp_hook": atp.torch.ddp_hook, "int16_hook": atp.torch.int16_hook}
on_both = pytest.mark.parametrize("hook", HOOKS.values(), ids=HOOKS)


class TwoLayers(torch.nn.Module):
    """One bucket with gradients of 1e-9 after gradients of about 1."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.large = torch.nn.Linear(40, 30, bias=False)
        self.small = torch.nn.Linear(40, 30, bias=False)

    def forward(self, x):
        return self.large(x) + 1e-9 * self.small(x)


def gradients_of_two_layers(rank, register):
    model = DistributedDataParallel(TwoLayers())
    register(model)
    generator = torch.Generator().manual_seed(rank)
    model(torch.randn(8, 40, generator=generator)).sum().backward()
    return model.module.large.weight.grad, model.module.small.weight.grad


def test_a_small_layer_survives_a_large_neighbour_with_the_hook_and_not_without(ranks):
    def body(rank):
        gloo = dist.new_group(backend="gloo")

        def by_gloo(state, bucket):
            work = dist.all_reduce(bucket.buffer(), group=gloo, async_op=True)
            return work.get_future().then(lambda future: future.value()[0] / 3)

        hooks = {"gloo": by_gloo, "none": None} | HOOKS
        found = {}
        for name, hook in hooks.items():
            found[name] = gradients_of_two_layers(
                rank, lambda model, hook=hook: hook and model.register_comm_hook(None, hook)
            )
        return found

    for found in ranks.run(3, body):
        large, small = found["gloo"]
        for name, tolerance in (("ddp_hook", 1e-6), ("int16_hook", 2e-3)):
            torch.testing.assert_close(found[name][0], large, rtol=0, atol=tolerance * 3)
            torch.testing.assert_close(found[name][1], small, rtol=0, atol=tolerance * 3e-9)
        # Without boundaries, the block that both layers share loses bits.
        lost = (found["none"][1] == 0).sum().item()
        assert lost > 0 and not (small == 0).any()


@on_both
def test_a_model_trains_the_same_as_without_the_hook(ranks, hook):
    def body(rank):
        hooked, plain = (DistributedDataParallel(make_model()) for _ in range(2))
        hooked.register_comm_hook(None, hook)
        losses, expected = train(hooked, rank), train(plain, rank)
        return losses, expected, digest(hooked), atp.torch.stats()["peers"].get("all_reduce", {})

    results = ranks.run(3, body)
    assert len({weights for _, _, weights, _ in results}) == 1
    for losses, expected, _, peers in results:
        assert losses == pytest.approx(expected, rel=1e-5 if hook is HOOKS["ddp_hook"] else 1e-2)
        assert "float32" not in peers


def test_int16_takes_half_the_bytes(ranks):
    def body(rank):
        sent = []
        for hook in HOOKS.values():
            model = DistributedDataParallel(torch.nn.Linear(500, 400, bias=False))
            model.register_comm_hook(None, hook)
            before = atp.torch.stats()["bytes_sent"]
            model(torch.ones(1, 500)).sum().backward()
            sent.append(atp.torch.stats()["bytes_sent"] - before)
        return sent

    for whole, half in ranks.run(2, body):
        assert whole > 4 * 200_000
        assert 0.5 * whole < half < 0.52 * whole


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_narrow_gradients_are_averaged_natively(ranks, dtype):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(30, 20, dtype=dtype))
        model.register_comm_hook(None, atp.torch.ddp_hook)
        model(torch.full((1, 30), 1.0 + rank, dtype=dtype)).sum().backward()
        return model.module.weight.grad.unique().tolist(), list(
            atp.torch.stats()["innetwork"]["all_reduce"]
        )

    name = str(dtype).removeprefix("torch.")
    assert ranks.run(3, body) == [([2.0], [name])] * 3


def test_a_group_of_another_algorithm(ranks):
    def body(rank):
        ring = dist.new_group([0, 1, 2], pg_options=atp.torch.Options(algorithm="ring"))
        model = DistributedDataParallel(torch.nn.Linear(3, 2, bias=False), process_group=ring)
        model.register_comm_hook(ring, atp.torch.ddp_hook)
        model(torch.full((1, 3), 1.0 + rank)).sum().backward()
        narrow = torch.nn.Linear(3, 2, bias=False, dtype=torch.bfloat16)
        bad = DistributedDataParallel(narrow, process_group=ring)
        bad.register_comm_hook(ring, atp.torch.int16_hook)
        with pytest.raises(
            TypeError, match="over a ring int16.*is for float32.*atp.torch.ddp_hook"
        ):
            bad(torch.ones(1, 3, dtype=torch.bfloat16)).sum().backward()
        return model.module.weight.grad.unique().tolist()

    assert ranks.run(3, body) == [[2.0]] * 3


def test_gradients_that_cannot_have_sixteen_bits_are_named(ranks):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(3, 2).double())
        model.register_comm_hook(None, atp.torch.int16_hook)
        with pytest.raises(TypeError, match="int16 on the wire is for float32.*ddp_hook"):
            model(torch.ones(1, 3).double()).sum().backward()
        model = DistributedDataParallel(torch.nn.Linear(3, 2, bias=False).double())
        model.register_comm_hook(None, atp.torch.ddp_hook)
        model(torch.full((1, 3), 1.0 + rank).double()).sum().backward()
        return model.module.weight.grad.unique().tolist()

    assert ranks.run(3, body) == [[2.0]] * 3
