"""SUM, AVG and PREMUL_SUM of every type, in every call and over every transport."""

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import atp.torch

INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn]
GROUPS = [("innetwork", 3), ("ring", 3), ("innetwork", 1)]

on_all_paths = pytest.mark.parametrize("algorithm, size", GROUPS)


def all_reduce(tensor, op):
    result = tensor.clone()
    dist.all_reduce(result, op=op)
    return result


def coalesced(tensor, op):
    results = [tensor.clone(), tensor.clone()]
    with dist._coalescing_manager():
        for result in results:
            dist.all_reduce(result, op=op)
    return results[0]


def for_gloo(tensor):
    """Converts int16, which Gloo does not move."""
    return tensor.int() if tensor.dtype == torch.int16 else tensor


def reduce(tensor, op):
    result = tensor.clone()
    dist.reduce(result, dst=0, op=op)
    moved = for_gloo(result)
    dist.broadcast(moved, src=0)
    return moved.to(result.dtype)


def gathered(part):
    moved = for_gloo(part)
    parts = [torch.empty_like(moved) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, moved)
    return torch.cat(parts).to(part.dtype)


def reduce_scatter(tensor, op):
    blocks = list(tensor.chunk(dist.get_world_size()))
    part = torch.empty_like(blocks[0])
    dist.reduce_scatter(part, blocks, op=op)
    return gathered(part)


def reduce_scatter_single(tensor, op):
    part = torch.empty_like(tensor.chunk(dist.get_world_size())[0])
    dist.reduce_scatter_single(part, tensor, op=op)
    return gathered(part)


CALLS = [all_reduce, coalesced, reduce, reduce_scatter, reduce_scatter_single]
on_all_calls = pytest.mark.parametrize("call", CALLS)


@on_all_calls
@on_all_paths
def test_the_average_of_integers_is_divided_toward_zero(ranks, algorithm, size, call):
    inputs = [[7, -7, 2, -2, 0, 5], [1, -1, 0, 0, -1, 3], [0, 0, 0, 0, 0, -20]]

    def body(rank):
        results = {}
        for dtype in INTEGERS:
            values = torch.tensor(inputs[rank])
            values = values.abs() if dtype == torch.uint8 else values
            result = call(values.to(dtype), dist.ReduceOp.AVG)
            assert result.dtype == dtype
            results[dtype] = result.tolist()
        return results

    def expected(dtype):
        rows = [[abs(v) for v in row] if dtype == torch.uint8 else row for row in inputs[:size]]
        return [int(sum(column) / size) for column in zip(*rows, strict=True)]

    for results in ranks.run(size, body, pg_options=atp.torch.Options(algorithm=algorithm)):
        assert results == {dtype: expected(dtype) for dtype in INTEGERS}


@on_all_calls
@on_all_paths
def test_sums_averages_and_scaled_sums_of_every_float(ranks, algorithm, size, call):
    def body(rank):
        results = {}
        for dtype in FLOATS:
            tensor = torch.tensor([1.5, -3.0, 0.75, 96.0, 0.0, 6.0]).to(dtype) * (rank + 1)
            kept = tensor.clone()
            for name, op in (
                ("SUM", dist.ReduceOp.SUM),
                ("AVG", dist.ReduceOp.AVG),
                ("PREMUL_SUM", dist._make_nccl_premul_sum(0.5)),
                ("PREMUL_SUM by a tensor", dist._make_nccl_premul_sum(torch.tensor([0.25]))),
            ):
                result = call(tensor, op)
                assert result.dtype == dtype
                results[name, dtype] = result.double()
            assert torch.equal(tensor, kept)
        return results

    total = torch.tensor([1.5, -3.0, 0.75, 96.0, 0.0, 6.0]).double() * sum(range(1, size + 1))
    factors = {"SUM": 1, "AVG": 1 / size, "PREMUL_SUM": 0.5, "PREMUL_SUM by a tensor": 0.25}
    for results in ranks.run(size, body, pg_options=atp.torch.Options(algorithm=algorithm)):
        for (name, dtype), result in results.items():
            tolerance = {"rtol": 1e-2, "atol": 1e-2} if dtype.itemsize == 2 else {}
            torch.testing.assert_close(
                result, total * factors[name], msg=f"{name} of {dtype}: {result}", **tolerance
            )


@on_all_paths
def test_the_sum_of_bool_is_or(ranks, algorithm, size):
    def body(rank):
        return all_reduce(torch.tensor([rank == 0, False]), dist.ReduceOp.SUM).tolist()

    options = atp.torch.Options(algorithm=algorithm)
    assert ranks.run(size, body, pg_options=options) == [[True, False]] * size


@on_all_calls
@on_all_paths
def test_types_without_a_sum_or_average_are_refused_with_our_message(ranks, algorithm, size, call):
    def body(rank):
        cases = [(dtype, op) for dtype in OTHERS for op in ("SUM", "AVG")] + [(torch.bool, "AVG")]
        for dtype, op in cases:
            tensor = torch.ones(6).to(dtype)
            with pytest.raises(TypeError, match="convert") as error:
                call(tensor, getattr(dist.ReduceOp, op))
            assert "gloo" not in str(error.value).lower()
        for dtype in INTEGERS:
            with pytest.raises(TypeError, match="PREMUL_SUM multiplies by a fraction"):
                call(torch.ones(6).to(dtype), dist._make_nccl_premul_sum(0.5))
        return all_reduce(torch.ones(2), dist.ReduceOp.SUM).tolist()  # the group still works

    options = atp.torch.Options(algorithm=algorithm)
    assert ranks.run(size, body, pg_options=options) == [[float(size)] * 2] * size


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_fsdp_with_its_own_divide_factor(ranks, algorithm):
    def body(rank):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 4, bias=False)
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("shard",))
        fully_shard(model, mesh=mesh)
        model.set_gradient_divide_factor(8.0)  # instead of 2: sent as PREMUL_SUM
        model(torch.full((1, 8), float(rank + 1))).sum().backward()
        return model.weight.grad.full_tensor().flatten().tolist()

    options = atp.torch.Options(algorithm=algorithm)
    # (1 + 2) / 8 for every weight
    assert ranks.run(2, body, pg_options=options) == [[0.375] * 32] * 2
