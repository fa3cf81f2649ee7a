"""Sums of float32 tensors: bit-identical, as exact as promised, and in every form of the call."""

import math

import numpy as np
import pytest
import torch
import torch.distributed as dist

import atp.torch

SCALE = 1e8  # of the fixed-point numbers that are sent with the fixed scale
FIXED = atp.torch.Options(scale="fixed")
SIZES = [1, 2, 349, 350, 351, 700, 4096, 100_003]


def values(rank: int, size: int) -> torch.Tensor:
    """Gradient-like values, different on each rank."""
    generator = torch.Generator().manual_seed(1000 * rank + size)
    return torch.randn(size, generator=generator) * 0.1


def exact_sum(inputs: list[np.ndarray], divisor: int = 1) -> np.ndarray:
    """The result that the protocol promises: the rounded integers' sum, rounded to float32."""
    # numpy's rint rounds halves to even, as the workers do.
    total = sum(np.rint(x.astype(np.float64) * SCALE).astype(np.int64) for x in inputs)
    return (total / SCALE / divisor).astype(np.float32)


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("op", ["SUM", "AVG"])
def test_all_ranks_hold_the_exact_integer_sum(ranks, world_size, op, record_property):
    def body(rank):
        results = []
        for size in SIZES:
            tensor = values(rank, size)
            dist.all_reduce(tensor, op=getattr(dist.ReduceOp, op))
            results.append(tensor.numpy())
        return results

    results = ranks.run(world_size, body, pg_options=FIXED)
    divisor = world_size if op == "AVG" else 1
    for i, size in enumerate(SIZES):
        inputs = [values(rank, size).numpy() for rank in range(world_size)]
        expected = exact_sum(inputs, divisor)
        for rank in range(world_size):
            assert results[rank][i].tobytes() == expected.tobytes(), f"rank {rank}, size {size}"

        true = sum(x.astype(np.float64) for x in inputs) / divisor
        rounding = np.spacing(np.abs(true).astype(np.float32)).astype(np.float64)
        bound = world_size / 2 / SCALE / divisor + rounding
        assert np.all(np.abs(expected - true) <= bound)


def test_the_error_compared_to_gloos(ranks):
    def body(rank):
        gloo = dist.new_group(backend="gloo")
        ours, theirs = values(rank, 100_000), values(rank, 100_000)
        dist.all_reduce(ours)
        dist.all_reduce(theirs, group=gloo)
        return ours.double().numpy(), theirs.double().numpy()

    results = ranks.run(4, body, pg_options=FIXED)
    true = sum(values(rank, 100_000).numpy().astype(np.float64) for rank in range(4))
    ours, theirs = (np.abs(results[0][i] - true).max() for i in range(2))
    print(f"largest error of a sum of 4: atp {ours:.2e}, gloo {theirs:.2e}")
    assert ours <= 2e-8 + np.spacing(np.float32(np.abs(true).max()))
    assert theirs <= 1e-6


@pytest.mark.parametrize("size", [1e-30, 1e-6, 1.0, 1e6, 1e30])
def test_the_first_sum_is_as_precise_as_any_whatever_the_magnitude(ranks, size):
    def body(rank):
        tensor = values(rank, 10_000) * size
        dist.all_reduce(tensor)
        return tensor.double().numpy()

    inputs = [(values(rank, 10_000) * size).numpy().astype(np.float64) for rank in range(3)]
    most = max(np.abs(x).max() for x in inputs)
    true = sum(inputs)
    # Three roundings of half a unit each, at most 2^-27 of a block's largest value, and the sum's.
    bound = 1.5 * most / 2**27 + np.spacing(np.float32(np.abs(true).max()))
    for result in ranks.run(3, body):
        assert np.abs(result - true).max() <= bound


def test_nan_and_infinity_reach_every_rank(ranks):
    def body(rank):
        tensor = torch.full((1000,), 0.5)
        if rank == 1:
            tensor[3], tensor[400], tensor[800] = math.nan, math.inf, -math.inf
        dist.all_reduce(tensor)
        after = torch.ones(10)
        dist.all_reduce(after)  # the earlier sum leaves no trace
        return tensor.numpy(), after.numpy()

    for tensor, after in ranks.run(3, body):
        expected = np.full(1000, 1.5, np.float32)
        expected[[3, 400, 800]] = math.nan, math.inf, -math.inf
        np.testing.assert_array_equal(tensor, expected)
        np.testing.assert_array_equal(after, np.full(10, 3, np.float32))


def test_an_exact_group_rounds_each_sum_once(ranks):
    def mixed(rank):
        generator = torch.Generator().manual_seed(rank)
        return torch.randn(3000, generator=generator) * 10.0 ** torch.arange(3000).fmod(60).sub(30)

    def body(rank):
        tensor = mixed(rank)
        dist.all_reduce(tensor)
        return tensor.numpy()

    results = ranks.run(3, body, pg_options=atp.torch.Options(exact=True))
    columns = zip(*[mixed(rank).tolist() for rank in range(3)], strict=True)
    expected = np.array([math.fsum(column) for column in columns]).astype(np.float32)
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_many_operations_in_flight_end_in_any_order_of_waiting(ranks):
    def body(rank):
        tensors = [torch.full((1 + 97 * i,), float(i + rank)) for i in range(50)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            work.wait()
        assert all(work.is_completed() and work.is_success() for work in works)
        return [(tensor[0].item(), tensor[-1].item()) for tensor in tensors]

    for result in ranks.run(2, body):
        assert result == [(2.0 * i + 1, 2.0 * i + 1) for i in range(50)]


def test_a_future_runs_its_callback_even_when_the_work_is_dropped(ranks):
    def body(rank):
        futures = []
        for i in range(20):
            tensor = torch.full((100,), float(i))
            future = dist.all_reduce(tensor, async_op=True).get_future()
            futures.append(future.then(lambda f: f.value()[0][0].item()))
        return [future.wait() for future in futures]

    assert ranks.run(2, body) == [[2.0 * i for i in range(20)]] * 2


def test_a_callback_may_start_the_next_operation(ranks):
    def body(rank):
        def again(future):
            second = future.value()[0].clone()
            return second, dist.all_reduce(second, async_op=True)

        first = dist.all_reduce(torch.ones(10), async_op=True).get_future().then(again)
        tensor, work = first.wait()
        work.wait()
        return tensor[0].item()

    assert ranks.run(2, body) == [4.0, 4.0]


def test_a_tensor_with_strides_is_summed_in_place_whatever_the_strides_of_the_others(ranks):
    def body(rank):
        base = torch.arange(12.0).reshape(3, 4)
        # The same values in the same places, in a different memory order on each rank.
        tensor = base.t().contiguous().t() if rank == 0 else base.clone()
        every_second = torch.arange(20.0)[::2]
        dist.all_reduce(tensor)
        dist.all_reduce(every_second)
        return tensor.tolist(), every_second.tolist(), atp.torch.stats()["peers"]

    for tensor, every_second, peers in ranks.run(2, body):
        assert tensor == (2 * torch.arange(12.0).reshape(3, 4)).tolist()
        assert every_second == (2 * torch.arange(20.0)[::2]).tolist()
        assert "all_reduce" not in peers


def test_several_tensors_in_one_call_are_one_operation(ranks):
    def body(rank):
        tensors = [torch.ones(5), torch.empty(0), torch.full((2, 3), 2.0), torch.ones(4)[::2]]
        dist.all_reduce_coalesced(tensors)
        with dist._coalescing_manager():
            for tensor in tensors:
                dist.all_reduce(tensor)
        stats = atp.torch.stats()
        done = stats["counters"]["operations_completed"]
        return [tensor.tolist() for tensor in tensors], stats["innetwork"], done

    for tensors, atp_traffic, done in ranks.run(2, body):
        assert tensors == [[4.0] * 5, [], [[8.0] * 3] * 2, [4.0] * 2]
        assert atp_traffic["all_reduce_coalesced"]["float32"]["calls"] == 2
        assert done == 2


def test_each_tensor_of_a_call_starts_a_new_block(ranks):
    def body(rank):
        tensors = [torch.full((3000,), 1e6), torch.full((3000,), 1e-6)]
        dist.all_reduce_coalesced(tensors)
        return tensors[1].double().tolist()

    for small in ranks.run(3, body):
        assert small == pytest.approx([3e-6] * 3000, rel=1e-6)


def test_tensors_of_several_types_in_one_call_are_refused(ranks):
    def body(rank):
        with pytest.raises(TypeError, match="one type.*Float and BFloat16"):
            with dist._coalescing_manager():
                dist.all_reduce(torch.ones(5))
                dist.all_reduce(torch.ones(5, dtype=torch.bfloat16))
        tensor = torch.ones(3)
        dist.all_reduce(tensor)
        return tensor.tolist()

    assert ranks.run(2, body) == [[2.0] * 3] * 2


def test_a_leaf_that_requires_gradients_is_summed_without_autograd(ranks):
    def body(rank):
        leaf = torch.nn.Parameter(torch.ones(4, 4))
        dist.all_reduce(leaf)
        dist.all_reduce(leaf.t())
        return leaf.grad_fn is None, leaf.sum().item()

    assert ranks.run(2, body) == [(True, 64.0)] * 2


def test_stats_count_calls_and_bytes_by_path(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(100))
        dist.all_reduce(torch.ones(50), op=dist.ReduceOp.AVG)
        dist.all_reduce(torch.ones(100, dtype=torch.int32))
        dist.all_reduce(torch.ones(100, dtype=torch.int64))
        dist.broadcast(torch.ones(10), src=0)
        return atp.torch.stats()

    for stats in ranks.run(2, body):
        assert stats["innetwork"]["all_reduce"] == {
            "float32": {"calls": 2, "bytes": 600},
            "int32": {"calls": 1, "bytes": 400},
        }
        assert stats["peers"]["all_reduce"] == {"int64": {"calls": 1, "bytes": 800}}
        assert stats["peers"]["broadcast"] == {"float32": {"calls": 1, "bytes": 40}}
        assert stats["values_per_fragment"] > 0
        assert stats["counters"]


def test_the_sequence_number_counts_collectives(ranks):
    def body(rank):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        before = backend._get_sequence_number_for_group()
        dist.all_reduce(torch.ones(3))
        dist.all_reduce(torch.ones(3, dtype=torch.int64))
        return backend._get_sequence_number_for_group() - before

    assert ranks.run(2, body) == [2, 2]
