"""Groups whose ranks share memory: no route, the same results, and errors when a rank ends."""

import os
import signal
import threading

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp.torch import Options
from atp.torch._address import this_host

RANKS = 3


def digest_of_many_sums(rank):
    """The results of all kinds of operations, asynchronous or waited for at once."""
    works, tensors = [], []
    generator = torch.Generator().manual_seed(rank)
    for i, dtype in enumerate([torch.float32, torch.bfloat16, torch.float16, torch.int32] * 3):
        length = 30_000 if i % 2 else 700
        values = torch.randn(length, generator=generator) * 10.0 ** (i - 6)
        tensors.append((values * 100).to(dtype))
        op = dist.ReduceOp.MAX if i % 5 == 4 else dist.ReduceOp.SUM
        works.append(dist.all_reduce(tensors[-1], op=op, async_op=i % 3 != 0))
    for work in works:
        if work is not None:
            work.wait()
    dist.all_reduce(tensors[1], op=dist.ReduceOp.AVG)
    futures = [dist.all_reduce(tensors[i], async_op=True).get_future() for i in (0, 4)]
    torch.futures.wait_all(futures)
    with dist._coalescing_manager():
        for i in (0, 4, 8):
            dist.all_reduce(tensors[i])
    return atp.torch.digest(), atp.torch.stats()["host_memory"]


@pytest.mark.parametrize("options", [{}, {"wire": "int16"}, {"exact": True}], ids=str)
def test_results_have_the_same_bits_as_the_network(ranks, options):
    options = Options(digest=True, **options)
    network = ranks.run(RANKS, digest_of_many_sums, pg_options=options)
    memory = ranks.run(RANKS, digest_of_many_sums, pg_options=options, memory=True, route="")
    assert {found for _, found in network} == {False}
    assert {found for _, found in memory} == {True}
    assert len({digest for digest, _ in network + memory}) == 1


def test_memory_is_used_despite_a_route_unless_it_is_disabled(ranks):
    def body(rank):
        refused = dist.new_group(pg_options=Options(host_memory=False))
        return [atp.torch.stats(group)["host_memory"] for group in (None, refused)]

    assert ranks.run(2, body, memory=True) == [[True, False]] * 2


def test_without_memory_and_route_each_ranks_error_says_what_to_do(ranks):
    outcomes = ranks.outcomes(2, lambda rank: None, route="")
    for outcome in outcomes:
        assert "has no route to the server" in outcome.error and "--switch" in outcome.error


def test_ranks_that_choose_differently_are_named(ranks):
    def body(rank):
        with pytest.raises(ValueError, match="was given host_memory"):
            dist.new_group(pg_options=Options(host_memory=rank == 0))

    ranks.run(2, body, memory=True)


def test_another_network_namespace_is_another_host(ranks, monkeypatch):
    def body(rank):
        here = this_host()
        assert here == this_host()
        monkeypatch.setattr("atp.torch._backend.this_host", lambda: f"{here}-{rank}")
        return atp.torch.stats(dist.new_group())["host_memory"]

    assert ranks.run(2, body, memory=True) == [False, False]


def test_the_fixed_scale_takes_the_network(ranks):
    def body(rank):
        return atp.torch.stats()["host_memory"]

    assert ranks.run(2, body, memory=True, pg_options=Options(scale="fixed")) == [False, False]


def test_many_groups_share_memory_and_let_go_of_it(ranks):
    def body(rank):
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(3):
            groups = [dist.new_group() for _ in range(5)]
            for group in groups:
                tensor = torch.ones(1000)
                dist.all_reduce(tensor, group=group)
                assert tensor[999] == RANKS
            for group in groups:
                dist.destroy_process_group(group)
        del group, groups
        with open("/proc/self/maps") as maps:
            mapped = sum("memfd:atp" in line for line in maps)
        return mapped, len(os.listdir("/proc/self/fd")) - before

    for mapped, descriptors in ranks.run(RANKS, body, memory=True, route=""):
        assert mapped == 1, "the default group's"
        assert descriptors <= 2


def test_threads_may_sum_at_the_same_time(ranks):
    def body(rank):
        sums = []

        def work():
            for _ in range(100):
                tensor = torch.ones(500)
                dist.all_reduce(tensor)
                sums.append(tensor.sum().item())

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return set(sums)

    assert ranks.run(2, body, memory=True, route="") == [{1000.0}] * 2


def test_a_rank_that_is_killed_is_named_and_leaves_nothing(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(100_000))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"rank 1 \(process \d+\) is lost") as error:
            dist.all_reduce(torch.ones(100_000), async_op=rank == 2).wait()
        return str(error.value)

    options = {"memory": True, "route": "", "waited_for": [0, 2], "timeout_s": 100}
    outcomes = ranks.outcomes(RANKS, body, **options)
    assert {outcome.error for outcome in outcomes} == {None}, [o.trace for o in outcomes]
    assert max(outcome.seconds for outcome in outcomes) < 50, "half of the time-out"
    # By name, as other tests may have files there at the same time.
    assert [name for name in os.listdir("/dev/shm") if "atp" in name] == []
