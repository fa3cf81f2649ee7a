"""The types and reductions that the network supports, by the table in docs/use/torch.md."""

import re

import pytest
import torch
import torch.distributed as dist

import atp.torch

SIZE = 3
FLOATS = [torch.float32, torch.bfloat16, torch.float16]
INTEGERS = [torch.int32, torch.int16, torch.int8, torch.uint8]
LENGTHS = [7, 3000]  # a small one, and one of several blocks and packets
OPTIONS = {
    "blocks": atp.torch.Options(),
    "int16": atp.torch.Options(wire="int16"),
    "exact": atp.torch.Options(exact=True),
}

in_every_format = pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)


def whole_numbers(rank, length):
    """Values from -20 to 20: every type and format holds them and their sums exactly."""
    return (torch.arange(length) * 7 + 13 * rank + torch.arange(length) * rank) % 41 - 20


def reduced(tensor, op):
    result = tensor.clone()
    dist.all_reduce(result, op=op)
    return result


@in_every_format
def test_floats(ranks, options):
    ops = ["SUM", "AVG", "MAX", "MIN"]

    def body(rank):
        results = {}
        for dtype in FLOATS:
            for length in LENGTHS:
                tensor = whole_numbers(rank, length).to(dtype)
                for op in ops:
                    results[op, dtype, length] = reduced(tensor, getattr(dist.ReduceOp, op))
                half = dist._make_nccl_premul_sum(0.5)
                results["PREMUL_SUM", dtype, length] = reduced(tensor, half)
        return results, atp.torch.stats()

    inputs = {
        length: [whole_numbers(r, length).double() for r in range(SIZE)] for length in LENGTHS
    }
    for results, stats in ranks.run(SIZE, body, pg_options=options):
        for (op, dtype, length), result in results.items():
            stack = torch.stack(inputs[length])
            expected = {
                "SUM": stack.sum(0),
                "AVG": (stack.sum(0).float() / SIZE).double(),
                "MAX": stack.amax(0),
                "MIN": stack.amin(0),
                "PREMUL_SUM": stack.sum(0) / 2,
            }[op]
            assert result.dtype == dtype
            assert torch.equal(result, expected.to(dtype)), f"{op} of {length} {dtype}"
        assert stats["peers"] == {}


def test_integers_wrap_around_in_their_own_type(ranks):
    ops = ["SUM", "MAX", "MIN"]

    def numbers(rank, dtype, length):
        info = torch.iinfo(dtype)
        generator = torch.Generator().manual_seed(rank)
        return torch.randint(info.min, info.max + 1, (length,), generator=generator).to(dtype)

    def body(rank):
        results = {}
        for dtype in INTEGERS:
            for length in LENGTHS:
                for op in ops:
                    tensor = numbers(rank, dtype, length)
                    results[op, dtype, length] = reduced(tensor, getattr(dist.ReduceOp, op))
        return results, atp.torch.stats()["peers"]

    for results, peers in ranks.run(SIZE, body):
        for (op, dtype, length), result in results.items():
            stack = torch.stack([numbers(r, dtype, length).long() for r in range(SIZE)])
            whole = {"SUM": stack.sum(0), "MAX": stack.amax(0), "MIN": stack.amin(0)}[op]
            info = torch.iinfo(dtype)
            expected = (whole - info.min) % (info.max - info.min + 1) + info.min
            assert result.dtype == dtype
            assert result.tolist() == expected.tolist(), f"{op} of {length} {dtype}"
        assert peers == {}


def test_the_average_of_integers_is_the_wrapped_sum_divided_toward_zero(ranks):
    def body(rank):
        results = [reduced(torch.tensor([100, -7]).to(d), dist.ReduceOp.AVG) for d in INTEGERS[:3]]
        return [result.tolist() for result in results], atp.torch.stats()["peers"]

    # In int8, 300 is 44.
    expected = [[100, -7], [100, -7], [14, -7]]
    assert ranks.run(SIZE, body) == [(expected, {})] * SIZE


def test_bools(ranks):
    def body(rank):
        tensor = torch.tensor([rank == 0, True, False])
        results = {op: reduced(tensor, getattr(dist.ReduceOp, op)) for op in ("SUM", "MAX", "MIN")}
        return {op: result.tolist() for op, result in results.items()}, atp.torch.stats()["peers"]

    expected = {"SUM": [True, True, False], "MAX": [True, True, False], "MIN": [False, True, False]}
    assert ranks.run(SIZE, body) == [(expected, {})] * SIZE


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("op", ["SUM", "MAX", "MIN"])
def test_special_values_reach_every_rank(ranks, dtype, op):
    def body(rank):
        results = []
        for length in LENGTHS:
            tensor = torch.full((length,), 0.5, dtype=dtype)
            if rank == 1:
                tensor[:3] = torch.tensor([torch.nan, torch.inf, -torch.inf])
            results.append(reduced(tensor, getattr(dist.ReduceOp, op)).tolist())
        return results

    rest = 0.5 * (SIZE if op == "SUM" else 1)
    infinities = {
        "SUM": [torch.inf, -torch.inf],
        "MAX": [torch.inf, rest],
        "MIN": [rest, -torch.inf],
    }
    for results in ranks.run(SIZE, body):
        for result in results:
            assert result[0] != result[0]
            assert result[1:3] == infinities[op]
            assert result[3:] == [rest] * (len(result) - 3)


def test_a_scaled_sum_of_a_narrow_type_is_rounded_once(ranks):
    factor = 1 / 3

    def numbers(rank):
        return (1 + torch.arange(128) * (2 * rank + 1) % 128 / 128).bfloat16()

    def body(rank):
        return reduced(numbers(rank).repeat(20), dist._make_nccl_premul_sum(factor))[:128]

    factors = [numbers(rank).float() * factor for rank in range(SIZE)]
    expected = sum(part.double() for part in factors).float().bfloat16()
    scaled_in_the_type = sum(part.bfloat16().double() for part in factors).float().bfloat16()
    assert not torch.equal(scaled_in_the_type, expected), "a case that shows the difference"
    for result in ranks.run(SIZE, body):
        assert torch.equal(result, expected)


def test_types_that_the_network_does_not_sum_go_over_the_peer_connections(ranks):
    cases = [
        (torch.float64, "SUM"),
        (torch.int64, "SUM"),
        (torch.int64, "MAX"),
        (torch.float32, "PRODUCT"),
        (torch.int32, "BOR"),
    ]

    def body(rank):
        for dtype, op in cases:
            reduced(torch.ones(5, dtype=dtype), getattr(dist.ReduceOp, op))
        return atp.torch.stats()

    for stats in ranks.run(2, body):
        assert stats["innetwork"] == {}
        assert sum(row["calls"] for row in stats["peers"]["all_reduce"].values()) == len(cases)


def test_a_fixed_scale_is_for_float32_and_says_so(ranks):
    def body(rank):
        for dtype in (torch.bfloat16, torch.float16):
            with pytest.raises(TypeError, match="scale=fixed sums float32 and int32.*scale=blocks"):
                reduced(torch.ones(5, dtype=dtype), dist.ReduceOp.SUM)
        narrow = reduced(torch.full((5,), rank).bfloat16(), dist.ReduceOp.MAX)
        return reduced(torch.ones(5), dist.ReduceOp.SUM).tolist(), narrow.tolist()

    options = atp.torch.Options(scale="fixed")
    assert ranks.run(2, body, pg_options=options) == [([2.0] * 5, [1.0] * 5)] * 2


def test_int16_is_for_up_to_64_ranks(ranks):
    outcomes = ranks.outcomes(
        65, lambda rank: None, started=[0, 64], pg_options=atp.torch.Options(wire="int16")
    )
    for outcome in outcomes:
        assert outcome.error.startswith("ValueError: wire='int16' is possible with up to 64 ranks")
        assert "Options.wire, ATP_WIRE" in outcome.error


@pytest.mark.parametrize(
    "mine, named",
    [
        ({"wire": "int16"}, "'int16'.*'blocks'|'blocks'.*'int16'"),
        ({"exact": True}, "'exact'.*'blocks'|'blocks'.*'exact'"),
        ({"scale": "fixed"}, "'fixed'.*'blocks'|'blocks'.*'fixed'"),
    ],
)
def test_ranks_that_disagree_on_the_format_are_told_at_once(ranks, mine, named):
    def body(rank):
        options = atp.torch.Options(**(mine if rank == 1 else {}))
        with pytest.raises(ValueError) as error:
            dist.new_group([0, 1], pg_options=options)
        return str(error.value)

    for error in ranks.run(2, body):
        assert re.search(named, error)
        assert "rank 0" in error and "rank 1" in error
        assert "ATP_WIRE" in error and "Options.scale" in error
