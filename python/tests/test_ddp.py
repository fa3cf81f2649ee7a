"""DistributedDataParallel and similar wrappers run unchanged over atp."""

import copy
import hashlib

import pytest
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import atp.torch


def make_model() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(
        torch.nn.Linear(20, 300),
        torch.nn.BatchNorm1d(300),
        torch.nn.ReLU(),
        torch.nn.Linear(300, 5),
    )


SGD = {"lr": 0.05, "momentum": 0.9}


def train(model: torch.nn.Module, rank: int, steps: int = 5, optimizer=None) -> list[float]:
    """Trains some steps on this rank's data, and returns the loss of each."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), **SGD)
    generator = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(16, 20, generator=generator)
        targets = torch.randint(5, (16,), generator=generator)
        loss = torch.nn.functional.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def digest(model: torch.nn.Module) -> str:
    parts = [p.detach().contiguous().numpy().tobytes() for p in model.parameters()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


OPTIONS = [
    {},
    {"gradient_as_bucket_view": True},
    {"static_graph": True},
    {"find_unused_parameters": True},
    {"bucket_cap_mb": 0.001},
    {"broadcast_buffers": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda o: ",".join(o) or "plain")
def test_the_weights_stay_equal_across_ranks_and_close_to_gloos(ranks, options):
    def body(rank):
        gloo = dist.new_group(backend="gloo")
        ours = DistributedDataParallel(make_model(), **options)
        theirs = DistributedDataParallel(make_model(), process_group=gloo, **options)
        losses = train(ours, rank)
        torch.testing.assert_close(losses, train(theirs, rank), rtol=1e-4, atol=1e-5)
        peers = atp.torch.stats()["peers"].get("all_reduce", {})
        return digest(ours), "float32" in peers

    results = ranks.run(3, body)
    assert len({weights for weights, _ in results}) == 1
    assert not any(by_peers for _, by_peers in results)


def test_no_sync_accumulates_locally(ranks):
    def body(rank):
        model = DistributedDataParallel(make_model())
        inputs = torch.full((4, 20), float(rank + 1))
        with model.no_sync():
            model(inputs).sum().backward()
        calls = atp.torch.stats()["innetwork"]
        model(inputs).sum().backward()
        return calls, [p.grad for p in model.parameters()]

    (calls, ours), (_, theirs) = ranks.run(2, body)
    assert calls == {}
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)


def test_a_communication_hook_in_python_runs_on_the_completion_thread(ranks):
    def body(rank):
        model = DistributedDataParallel(make_model())

        def hook(state, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
            work = dist.all_reduce(bucket.buffer(), async_op=True)
            return work.get_future().then(lambda f: f.value()[0] / dist.get_world_size())

        reference = DistributedDataParallel(make_model())
        model.register_comm_hook(None, hook)
        assert train(model, rank) == pytest.approx(train(reference, rank), rel=1e-5)
        return digest(model)

    assert len(set(ranks.run(2, body))) == 1


def test_join_lets_ranks_have_unequal_numbers_of_batches(ranks):
    def body(rank):
        torch.manual_seed(1)
        model = DistributedDataParallel(torch.nn.Linear(20, 5))
        with model.join():
            train(model, rank, steps=2 + 2 * rank)
        return digest(model)

    assert len(set(ranks.run(2, body))) == 1


def test_an_optimizer_whose_states_are_shared_out_gives_the_same_weights(ranks):
    def body(rank):
        digests = []
        for shared in (False, True):
            model = DistributedDataParallel(make_model())
            optimizer = None
            if shared:
                optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, **SGD)
            train(model, rank, optimizer=optimizer)
            digests.append(digest(model))
        mine = sum(len(group["params"]) for group in optimizer.optim.param_groups)
        return digests, mine

    results = ranks.run(2, body)
    assert len({text for digests, _ in results for text in digests}) == 1
    every = len(list(make_model().parameters()))
    assert sum(mine for _, mine in results) == every > max(mine for _, mine in results)


def test_an_average_of_gradients_by_hand(ranks):
    def body(rank):
        model = make_model()
        model(torch.full((4, 20), float(rank))).sum().backward()
        before = [copy.deepcopy(p.grad) for p in model.parameters()]
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
        return before, [p.grad for p in model.parameters()]

    (before0, after0), (before1, after1) = ranks.run(2, body)
    for a, b, mean0, mean1 in zip(before0, before1, after0, after1, strict=True):
        assert torch.equal(mean0, mean1)
        torch.testing.assert_close(mean0, (a + b) / 2, rtol=1e-6, atol=2e-8)


def sharded(shape, names, seed=0) -> torch.nn.Module:
    torch.manual_seed(seed)
    model = torch.nn.Sequential(torch.nn.Linear(20, 300), torch.nn.Linear(300, 5))
    return fully_shard(model, mesh=init_device_mesh("cpu", shape, mesh_dim_names=names))


@pytest.mark.parametrize("shape", [(4,), (2, 2)], ids=["FSDP2", "HSDP"])
def test_sharded_training_learns_what_it_learns_over_gloo(ranks, shape):
    # HSDP averages the shards' gradients between the replicas: an AVG all-reduce in subgroups.
    names = ("replicate", "shard")[-len(shape) :]

    def body(rank):
        return train(sharded(shape, names), rank)

    over_atp = ranks.run(4, body)
    over_gloo = ranks.run(4, body, backend="gloo")
    torch.testing.assert_close(over_atp, over_gloo, rtol=1e-5, atol=1e-6)


def test_a_checkpoint_of_sharded_weights_is_loaded_on_another_mesh(ranks, tmp_path):
    def whole(model):
        return {name: part.full_tensor() for name, part in model.state_dict().items()}

    def body(rank):
        trained = sharded((4,), ("shard",))
        train(trained, rank)
        dcp.save(get_model_state_dict(trained), checkpoint_id=tmp_path / "checkpoint")
        loaded = sharded((2, 2), ("replicate", "shard"), seed=1)
        state = get_model_state_dict(loaded)
        dcp.load(state, checkpoint_id=tmp_path / "checkpoint")
        set_model_state_dict(loaded, state)
        return whole(trained), whole(loaded), whole(sharded((4,), ("shard",)))

    for expected, found, before in ranks.run(4, body):
        assert expected.keys() == found.keys()
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor) and not torch.equal(before[name], tensor)
