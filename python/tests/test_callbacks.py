"""Callbacks of Futures that wait for other works of their group."""

import os
import threading
import warnings

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from .waiting import wait_until
from .ways import WAYS, options_of


def sum_of_ones(size=10):
    return dist.all_reduce(torch.ones(size), async_op=True).get_future()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("levels", [1, 2, 10])
def test_callbacks_wait_for_works_several_levels_deep(ranks, way, levels):
    def body(rank):
        def callback(future, level):
            value = future.value()[0][0].item()
            if level == 0:
                return value
            return value + sum_of_ones().then(lambda f: callback(f, level - 1)).wait()

        return sum_of_ones().then(lambda f: callback(f, levels)).wait()

    assert ranks.run(2, body, pg_options=options_of(way)) == [2.0 * (levels + 1)] * 2


def one_after_the_other(rank, with_callbacks, other):
    """Starts the ranks one after another, so that each adds its callbacks before its sums can end:
    a callback added to a complete Future would run at once. Calls with_callbacks(registered)."""
    store = dist.distributed_c10d._get_default_store()
    value = None
    for first in range(2):
        if rank == first:
            value = with_callbacks(lambda key=f"registered/{first}": store.set(key, ""))
        else:
            store.wait([f"registered/{first}"])
            other()
    return value


@pytest.mark.parametrize("way", WAYS)
def test_many_callbacks_wait_at_the_same_time_by_work_and_by_future(ranks, way):
    count = 40

    def body(rank):
        # All start before any of them continues, so that each waits on a separate thread.
        everyone = threading.Barrier(count)

        def callback(future):
            everyone.wait()
            tensor = torch.ones(3)
            work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            return tensor[0].item() + sum_of_ones(3).wait()[0][0].item()

        def with_callbacks(registered):
            futures = [sum_of_ones().then(callback) for _ in range(count)]
            registered()
            return [future.wait() for future in futures]

        def other():
            futures = [sum_of_ones() for _ in range(count)]
            futures += [sum_of_ones(3) for _ in range(2 * count)]
            for future in futures:
                future.wait()

        return one_after_the_other(rank, with_callbacks, other)

    assert ranks.run(2, body, pg_options=options_of(way)) == [[4.0] * count] * 2


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_may_wait_for_a_barrier_and_for_transfers_between_ranks(ranks, way):
    def body(rank):
        def callback(future):
            dist.barrier()
            whole = torch.arange(6, dtype=torch.int64)[::2]
            dist.all_reduce(whole, op=dist.ReduceOp.AVG)
            return whole.tolist()

        return sum_of_ones().then(callback).wait()

    assert ranks.run(2, body, pg_options=options_of(way)) == [[0, 2, 4]] * 2


def test_the_threads_have_names_and_end_with_the_group(ranks):
    def names():
        tasks = "/proc/self/task"
        return [open(f"{tasks}/{task}/comm").read().strip() for task in os.listdir(tasks)]

    def body(rank):
        def with_callbacks(registered):
            future = sum_of_ones().then(lambda f: sum_of_ones().wait())
            registered()
            future.wait()
            return names().count("atp-completion")

        def other():
            for future in [sum_of_ones(), sum_of_ones()]:
                future.wait()

        during = one_after_the_other(rank, with_callbacks, other)
        dist.destroy_process_group()
        return during >= 2, wait_until(lambda: "atp-completion" not in names())

    assert ranks.run(2, body) == [(True, True)] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("approximation_rank", [1, 4])
def test_power_sgd_trains_as_over_gloo(ranks, way, approximation_rank):
    def body(rank):
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        model = torch.nn.Sequential(
            torch.nn.Linear(20, 60),
            torch.nn.ReLU(),
            torch.nn.Linear(60, 60),
            torch.nn.Linear(60, 5),
        )
        # In one bucket: the hook starts operations in callbacks, whose order is the same at all
        # ranks only within a bucket.
        model = DistributedDataParallel(model)
        state = powerSGD_hook.PowerSGDState(
            process_group=None,
            matrix_approximation_rank=approximation_rank,
            start_powerSGD_iter=2,
            min_compression_rate=0.5,
        )
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(rank)
        losses = []
        for _ in range(8):
            optimizer.zero_grad()
            x = torch.randn(16, 20, generator=generator)
            loss = (model(x) - x[:, :5]).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert state.compression_stats()[2] > 0, "nothing was compressed"
        return losses

    over_atp = ranks.run(2, body, pg_options=options_of(way))
    over_gloo = ranks.run(2, body, backend="gloo")
    torch.testing.assert_close(over_atp, over_gloo, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_a_callback_may_wait_for_its_own_work(ranks, way):
    def body(rank):
        def with_callback(registered):
            work = dist.all_reduce(torch.ones(10), async_op=True)
            future = work.get_future().then(lambda f: (work.wait(), f.value()[0][0].item())[1])
            registered()
            return future.wait()

        return one_after_the_other(rank, with_callback, lambda: sum_of_ones().wait())

    assert ranks.run(2, body, pg_options=options_of(way)) == [2.0, 2.0]
