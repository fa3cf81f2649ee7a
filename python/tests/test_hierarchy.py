"""Groups over several hosts, whose ranks sum in their host's memory before one of them sends.

All hosts of these tests are this machine; the ranks report different hosts.
"""

import os
import signal

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp.torch import Options
from atp.torch._address import this_host
from atp.torch._choice import Figures

HOSTS = (0, 0, 1, 0, 1, 2)


@pytest.fixture
def group_on_hosts(monkeypatch):
    """Makes a group whose rank r is on host HOSTS[r]; called by each rank."""

    def make(rank, **options):
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: f"{this_host()}-{HOSTS[rank]}")
        return dist.new_group(pg_options=Options(hierarchy=True, **options))

    return make


def results(group, rank):
    """Sums of all types and reductions, small and large, with NaN and infinities."""
    generator = torch.Generator().manual_seed(rank)
    found = []
    types = [
        torch.float32,
        torch.bfloat16,
        torch.float16,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.bool,
    ]
    ops = [dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG]
    for length in (1, 700, 30_001, 70_000):
        for dtype in types:
            for op in ops:
                if dtype == torch.bool and op == dist.ReduceOp.AVG:
                    continue
                values = torch.randn(length, generator=generator) * 100
                if dtype.is_floating_point and length == 30_001:
                    values[5 + rank] = float("inf") * (-1) ** rank
                    values[3000] = float("nan")
                    values[9000:12_000] = 0
                tensor = values.to(dtype)
                dist.all_reduce(tensor, op=op, group=group)
                found.append(tensor)
    tensors = [
        torch.randn(length, generator=generator) * 10.0 ** (8 - i)
        for i, length in enumerate((3, 0, 9, 5000))
    ]
    dist.all_reduce_coalesced(tensors, group=group)
    scaled = torch.randn(9000, generator=generator)
    factor = torch._C._distributed_c10d._make_nccl_premul_sum(0.37)
    dist.all_reduce(scaled, op=factor, group=group)
    return [bits(tensor) for tensor in [*found, *tensors, scaled]]


def bits(tensor):
    return tensor.view(torch.uint8).numpy().tobytes()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("options", [{}, {"wire": "int16"}], ids=str)
def test_results_have_the_same_bits_as_all_other_ways(ranks, group_on_hosts, options):
    def body(rank):
        size = dist.get_world_size()
        group = group_on_hosts(rank, **options)
        network = dist.new_group(pg_options=Options(host_memory=False, **options))
        expected = results(network, rank)
        assert results(group, rank) == expected
        stats = atp.torch.stats(group)
        leads = HOSTS.index(HOSTS[rank]) == rank
        assert stats["host_memory"]
        assert (stats["counters"].get("gradients_sent", 0) > 0) == leads
        assert (stats["bytes_sent"] > 0) == leads
        return size, len(expected)

    assert len(set(ranks.run(len(HOSTS), body, memory=True))) == 1


def test_a_ring_beside_the_hosts_changes_no_bit(ranks, group_on_hosts, monkeypatch):
    """Large sums take the ring of all ranks, small ones the hosts' memory and then the network."""
    figures = Figures(innetwork=(10_000, 100_000), ring=(1_000_000, 1000), text="planted")

    def body(rank):
        monkeypatch.setattr("atp.torch._backend.given_figures", lambda meeting: figures)
        group = group_on_hosts(rank, algorithm="auto")
        network = dist.new_group(pg_options=Options(algorithm="innetwork", host_memory=False))
        for length in (10, 700, 30_001, 70_000):
            tensor = torch.randn(length, generator=torch.Generator().manual_seed(rank))
            expected = tensor.clone()
            dist.all_reduce(tensor, group=group)
            dist.all_reduce(expected, group=network)
            assert bits(tensor) == bits(expected)
        stats = atp.torch.stats(group)
        return stats["host_memory"], stats["choice"]["innetwork"], stats["choice"]["ring"]

    found = ranks.run(len(HOSTS), body, memory=True)
    assert found == [(True, 2, 2)] * len(HOSTS)


def test_one_host_uses_memory_and_hosts_of_one_rank_use_the_network(ranks, monkeypatch):
    def body(rank):
        one_host = dist.new_group(pg_options=Options(hierarchy=True))
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: f"{this_host()}-{rank}")
        one_each = dist.new_group(pg_options=Options(hierarchy=True))
        for group in (one_host, one_each):
            tensor = torch.full((5000,), rank + 1.0)
            dist.all_reduce(tensor, group=group)
            assert tensor[4999] == 3
        return [
            (found["host_memory"], found["bytes_sent"] > 0)
            for found in map(atp.torch.stats, (one_host, one_each))
        ]

    assert ranks.run(2, body, memory=True) == [[(True, False), (False, True)]] * 2


def test_options_that_memory_does_not_support_take_the_network(ranks, group_on_hosts):
    def body(rank):
        found = []
        for options in ({"exact": True}, {"scale": "fixed"}, {"host_memory": False}):
            group = group_on_hosts(rank, **options)
            tensor = torch.full((5000,), rank + 1.0)
            dist.all_reduce(tensor, group=group)
            assert tensor[4999] == 6
            found.append(atp.torch.stats(group)["host_memory"])
        return found

    assert ranks.run(3, body, memory=True) == [[False] * 3] * 3


def test_ranks_that_choose_differently_are_named(ranks):
    def body(rank):
        with pytest.raises(ValueError, match="was given hierarchy"):
            dist.new_group(pg_options=Options(hierarchy=rank == 0))

    ranks.run(2, body, memory=True)


def test_the_environment_can_enable_it_too(ranks, monkeypatch, group_on_hosts):
    monkeypatch.setenv("ATP_HIERARCHY", "1")
    assert Options().resolved(torch.distributed.default_pg_timeout, alone=True).hierarchy
    monkeypatch.setenv("ATP_HIERARCHY", "yes")
    with pytest.raises(ValueError, match="ATP_HIERARCHY='yes'"):
        Options().resolved(torch.distributed.default_pg_timeout, alone=True)


@pytest.mark.parametrize("killed", [1, 2], ids=["no leader", "a leader"])
def test_a_rank_that_is_killed_is_named_on_all_hosts(ranks, group_on_hosts, killed):
    def body(rank):
        group = group_on_hosts(rank)
        dist.all_reduce(torch.ones(100_000), group=group)
        if rank == killed:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match=rf"rank {killed} \(.*lost") as error:
            dist.all_reduce(torch.ones(100_000), group=group, async_op=rank == 0).wait()
        return str(error.value)

    others = [rank for rank in range(len(HOSTS)) if rank != killed]
    options = {"memory": True, "waited_for": others, "timeout_s": 100}
    outcomes = ranks.outcomes(len(HOSTS), body, **options)
    assert {outcome.error for outcome in outcomes} == {None}, [o.trace for o in outcomes]
    assert max(outcome.seconds for outcome in outcomes) < 50, "half of the time-out"
    assert [name for name in os.listdir("/dev/shm") if "atp" in name] == []
