"""A barrier ends only after the group's earlier operations."""

import time

import pytest
import torch
import torch.distributed as dist

import atp.torch

LATE_S = 0.7


def by_transport():
    return torch.ones(400_000), dist.ReduceOp.SUM


def by_peers():
    return torch.ones(5000, dtype=torch.int64), dist.ReduceOp.SUM


def by_peers_and_then_by_us():
    return torch.ones(5000, dtype=torch.int64)[::2], dist.ReduceOp.AVG


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize("ask", [by_transport, by_peers, by_peers_and_then_by_us])
@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "asynchronous"])
def test_earlier_operations_have_ended_after_a_barrier(ranks, algorithm, ask, waits):
    def body(rank):
        tensors_and_ops = [ask() for _ in range(20)]
        if rank == 1:
            time.sleep(LATE_S)
        works = [dist.all_reduce(t, op=op, async_op=True) for t, op in tensors_and_ops]
        if waits:
            dist.barrier()
        else:
            dist.barrier(async_op=True).wait()
        expected = 1 if ask is by_peers_and_then_by_us else 2
        ended = all(work.is_completed() for work in works)
        return ended, all(bool((t == expected).all()) for t, _ in tensors_and_ops)

    assert (
        ranks.run(2, body, pg_options=atp.torch.Options(algorithm=algorithm)) == [(True,) * 2] * 2
    )


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_an_asynchronous_barrier_does_not_block_its_caller(ranks, algorithm):
    def body(rank):
        # Rank 1 takes part in the sum only after it gets the tensor that rank 0 sends after its
        # barrier.
        word = torch.zeros(1)
        if rank == 1:
            dist.recv(word, 0)
        work = dist.all_reduce(torch.ones(10), async_op=True)
        barrier = dist.barrier(async_op=True)
        if rank == 0:
            dist.send(word, 1)
        barrier.wait()
        return work.is_completed()

    assert ranks.run(2, body, pg_options=atp.torch.Options(algorithm=algorithm)) == [True, True]
