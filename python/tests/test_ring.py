"""Groups whose ranks sum over TCP from neighbour to neighbour: results, counters and failures."""

import datetime
import itertools
import os
import signal

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional
from torch.nn.parallel import DistributedDataParallel

import atp.torch

from .test_errors import errors_of

RING = atp.torch.Options(algorithm="ring")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12}


def values(rank: int, size: int, dtype=torch.float32) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * rank + size)
    return torch.randn(size, generator=generator, dtype=dtype)


def exact_sum(world_size: int, size: int, dtype) -> torch.Tensor:
    return sum(values(rank, size, dtype).double() for rank in range(world_size))


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_an_all_reduce_gives_all_ranks_the_same_sum(ranks, world_size, dtype, op):
    sizes = [1, 2, 5, 1000, 100_003]

    def body(rank):
        results = [values(rank, size, dtype) for size in sizes]
        for tensor in results:
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
        return [tensor.numpy() for tensor in results]

    results = ranks.run(world_size, body, route="", pg_options=RING)
    for i, size in enumerate(sizes):
        assert all(result[i].tobytes() == results[0][i].tobytes() for result in results)
        expected = exact_sum(world_size, size, dtype) / (world_size if op == "AVG" else 1)
        error = (torch.from_numpy(results[0][i]).double() - expected).abs().max()
        assert error <= TOLERANCE[dtype] * expected.abs().max()


def as_whole(rank, world_size):
    return values(rank, 6 * world_size).reshape(world_size * 2, 3)


def reduce_scatter_single(rank, whole):
    block = torch.empty(2, 3)
    dist.reduce_scatter_tensor(block, whole)
    return block


def reduce_scatter_list(rank, whole):
    block = torch.empty(2, 3)
    dist.reduce_scatter(block, list(whole.chunk(dist.get_world_size())))
    return block


def reduce_scatter_functional(rank, whole):
    return functional.reduce_scatter_tensor(whole, "sum", 0, dist.group.WORLD).wait()


def reduce_scatter_strided(rank, whole):
    block = torch.empty(3, 2).t()
    dist.reduce_scatter(block, list(whole.t().contiguous().t().chunk(dist.get_world_size())))
    return block.contiguous()


@pytest.mark.parametrize(
    "scatter",
    [
        reduce_scatter_single,
        reduce_scatter_list,
        reduce_scatter_functional,
        reduce_scatter_strided,
    ],
)
def test_every_reduce_scatter_gives_a_rank_its_block_and_leaves_the_input(ranks, scatter):
    def body(rank):
        whole = as_whole(rank, 3)
        block = scatter(rank, whole)
        assert torch.equal(whole, as_whole(rank, 3))
        return block.numpy(), atp.torch.stats()

    total = sum(as_whole(rank, 3) for rank in range(3))
    for rank, (block, stats) in enumerate(ranks.run(3, body, route="", pg_options=RING)):
        torch.testing.assert_close(torch.from_numpy(block), total[2 * rank : 2 * rank + 2])
        assert not stats["peers"] and len(stats["ring"]) == 1


def all_gather_single(rank, block):
    whole = torch.empty(3 * block.shape[0], *block.shape[1:], dtype=block.dtype)
    dist.all_gather_into_tensor(whole, block)
    return whole


def all_gather_list(rank, block):
    blocks = [torch.empty_like(block) for _ in range(3)]
    dist.all_gather(blocks, block)
    return torch.cat(blocks)


def all_gather_functional(rank, block):
    return functional.all_gather_tensor(block, 0, dist.group.WORLD).wait()


def all_gather_strided(rank, block):
    whole = torch.empty(block.shape[1], 3 * block.shape[0], dtype=block.dtype).t()
    strided = block.t().contiguous().t()
    dist.all_gather(list(whole.chunk(3)), strided)
    return whole.contiguous()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize(
    "gather", [all_gather_single, all_gather_list, all_gather_functional, all_gather_strided]
)
def test_every_all_gather_gives_all_blocks_to_all_ranks_whatever_the_type(ranks, gather, dtype):
    def block(rank):
        return (values(rank, 10).reshape(2, 5) * 3).to(dtype)

    def body(rank):
        return gather(rank, block(rank)).to(torch.float64).numpy(), atp.torch.stats()["peers"]

    expected = torch.cat([block(rank) for rank in range(3)]).to(torch.float64)
    for whole, peers in ranks.run(3, body, route="", pg_options=RING):
        assert torch.equal(torch.from_numpy(whole), expected)
        assert not peers


def test_types_that_a_ring_does_not_add_go_over_the_peer_connections(ranks):
    def body(rank):
        largest = torch.tensor([float(rank)])
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        whole = torch.tensor([rank])
        dist.all_reduce(whole)
        half = torch.ones(2, dtype=torch.bfloat16)
        dist.all_reduce(half)
        root = torch.tensor([float(rank)])
        dist.broadcast(root, src=1)
        sums = largest.item(), whole.item(), half[0].item(), root.item()
        return sums, set(atp.torch.stats()["peers"]), atp.torch.stats()["ring"]

    for sums, peers, ring in ranks.run(2, body, route="", pg_options=RING):
        assert sums == (1, 1, 2, 1)
        assert peers == {"all_reduce", "broadcast"} and not ring


@pytest.mark.parametrize("world_size", [2, 4])
def test_the_bytes_sent_match_the_model(ranks, world_size):
    size = 16_384  # bytes, whose values and blocks are multiples of both world sizes

    def body(rank):
        sent = []

        def measure(call, *arguments):
            call(*arguments)
            sent.append(atp.torch.stats()["bytes_sent"])

        whole, block = torch.ones(size // 4), torch.ones(size // 4 // world_size)
        measure(dist.all_reduce, whole)
        measure(dist.all_reduce, torch.ones(12))  # small: each rank's values go to all
        measure(dist.reduce_scatter_tensor, block, whole)
        measure(dist.all_gather_into_tensor, whole, block)
        dist.barrier()
        stats = atp.torch.stats()
        assert stats["algorithm"] == "ring" and stats["bytes_sent_again"] == 0
        return [b - a for a, b in itertools.pairwise([0, *sent])]

    def share(nbytes):
        return nbytes * (world_size - 1) // world_size

    exponents = size // 4 // 256 * 2
    expected = [2 * share(size) + 2 * share(exponents), (world_size - 1) * 48]
    expected += [share(size), share(size)]
    assert ranks.run(world_size, body, route="", pg_options=RING) == [expected] * world_size


def test_several_tensors_in_one_call(ranks):
    def body(rank):
        tensors = [torch.ones(5), torch.empty(0), torch.full((2, 3), 2.0, dtype=torch.float32)]
        dist.all_reduce_coalesced(tensors)
        gathered = functional.all_gather_into_tensor_coalesced(tensors, dist.group.WORLD)
        return [t.sum().item() for t in tensors], [t.sum().item() for t in gathered]

    for sums, gathered in ranks.run(2, body, route="", pg_options=RING):
        assert sums == [10, 0, 24] and gathered == [20, 0, 48]


def test_many_operations_in_flight_end_in_any_order_of_waiting(ranks):
    def body(rank):
        tensors = [torch.full((1 + 997 * i,), float(i + rank)) for i in range(50)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            work.wait()
        return [(tensor[0].item(), tensor[-1].item()) for tensor in tensors]

    for result in ranks.run(3, body, route="", pg_options=RING):
        assert result == [(3.0 * i + 3, 3.0 * i + 3) for i in range(50)]


def test_ddp_trains_the_same_replicas(ranks):
    def body(rank):
        torch.manual_seed(1)
        layers = torch.nn.Linear(20, 50), torch.nn.ReLU(), torch.nn.Linear(50, 1)
        model = DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.001)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            model(values(10 * step + rank, 80).reshape(4, 20)).square().mean().backward()
            optimizer.step()
        assert "all_reduce" not in atp.torch.stats()["peers"]
        return torch.cat([p.detach().flatten() for p in model.parameters()]).numpy().tobytes()

    weights = ranks.run(3, body, route="", pg_options=RING)
    assert weights[0] == weights[1] == weights[2]


def test_a_ring_next_to_aggregation_in_the_network(ranks):
    def body(rank):
        ring = dist.new_group([0, 1, 2], backend="atp", pg_options=RING)
        tensors = [torch.full((5000,), float(rank)) for _ in range(6)]
        works = [
            dist.all_reduce(tensor, group=group, async_op=True)
            for tensor, group in zip(tensors, [None, ring] * 3, strict=True)
        ]
        for work in works:
            work.wait()
        algorithms = [atp.torch.stats(group)["algorithm"] for group in (None, ring)]
        return [tensor[0].item() for tensor in tensors], algorithms

    assert ranks.run(3, body) == [([3.0] * 6, ["innetwork", "ring"])] * 3


def test_the_environment_may_choose_the_ring(ranks, monkeypatch):
    monkeypatch.setenv("ATP_ALGORITHM", "ring")

    def body(rank):
        dist.all_reduce(torch.ones(3))
        return atp.torch.stats()["algorithm"], atp.torch.stats()["ring"]["all_reduce"]

    expected = ("ring", {"float32": {"calls": 1, "bytes": 12}})
    assert ranks.run(2, body, route="") == [expected] * 2


def test_shapes_that_do_not_fit_are_refused(ranks):
    def body(rank):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        with pytest.raises(ValueError, match="all_gather_single: expected 6 values, 2 times the 3"):
            backend._allgather_base(torch.empty(7), torch.empty(3), c10d.AllgatherOptions()).wait()
        with pytest.raises(TypeError, match="input and output must have the same type"):
            backend._allgather_base(
                torch.empty(6, dtype=torch.int64), torch.empty(3), c10d.AllgatherOptions()
            ).wait()
        with pytest.raises(ValueError, match="expected 2 tensors, one for each input, but found 1"):
            dist.group.WORLD.allgather_into_tensor_coalesced(
                [torch.empty(2)], [torch.empty(1), torch.empty(1)]
            ).wait()
        with pytest.raises(ValueError, match="expected 2 tensors, one for each rank, but found 1"):
            backend.reduce_scatter(
                [torch.empty(3)], [[torch.empty(3)]], c10d.ReduceScatterOptions()
            ).wait()
        dist.all_reduce(torch.ones(3))  # the group still works

    ranks.run(2, body, route="", pg_options=RING)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_rank_that_is_lost_is_named_with_its_address(ranks, how):
    def body(rank):
        dist.all_reduce(torch.ones(100))
        dist.barrier()
        if rank == 1:
            os.kill(os.getpid(), how)
        dist.all_reduce(torch.ones(100_000))

    outcomes = ranks.outcomes(4, body, waited_for=[0, 2, 3], timeout_s=3, route="", pg_options=RING)
    for error in errors_of(outcomes):
        assert error.startswith("DistBackendError: all_reduce #")
        assert "rank 1 (127.0.0.1:" in error


def test_a_subgroups_ranks_have_their_global_numbers(ranks):
    def body(rank):
        group = dist.new_group([0, 3], pg_options=RING, timeout=datetime.timedelta(seconds=1))
        if rank == 3:
            signal.pause()
        if rank == 0:
            dist.all_reduce(torch.ones(3), group=group)

    outcomes = ranks.outcomes(4, body, waited_for=[0], route="", pg_options=RING)
    assert "rank 3 (127.0.0.1:" in errors_of(outcomes)[0]
    assert "has not called all_reduce #" in errors_of(outcomes)[0]


def test_ranks_with_different_algorithms_get_an_error(ranks):
    def body(rank):
        algorithm = "ring" if rank == 0 else "innetwork"
        dist.new_group([0, 1], pg_options=atp.torch.Options(algorithm=algorithm))

    errors = errors_of(ranks.outcomes(2, body))
    assert "rank 1 of group" in errors[0] and "'innetwork', and rank 0 'ring'" in errors[0]
    assert "rank 0 of group" in errors[1] and "'ring', and rank 1 'innetwork'" in errors[1]


def test_a_missing_interface_is_named(ranks, monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nope0")
    for error in errors_of(ranks.outcomes(2, lambda rank: None, route="", pg_options=RING)):
        assert "GLOO_SOCKET_IFNAME='nope0': this host has no such interface" in error
