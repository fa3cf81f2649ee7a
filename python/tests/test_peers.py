"""Connections between any two ranks: every collective with every type, exact to the last bit."""

import functools
import re

import pytest
import torch
import torch.distributed as dist

import atp.torch

from .gloo_oracle import check_like_gloo
from .ways import WAYS, options_of

RANKS = 3
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
COMPLEX = [torch.complex64, torch.complex128]
# Types that cannot be summed, but can be moved.
OTHERS = [torch.uint16, torch.uint32, torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2]
TYPES = [torch.bool, *INTEGERS, *FLOATS, *COMPLEX, *OTHERS]


def bits(tensor) -> bytes:
    return tensor.contiguous().view(torch.uint8).numpy().tobytes()


def noise(rank, to, count, dtype):
    """The tensor that `rank` has for rank `to`: any bits, including NaNs."""
    size = count * dtype.itemsize
    raw = ((torch.arange(size) * 37 + 101 * rank + 59 * to) % 251).to(torch.uint8)
    return (raw % 2).bool() if dtype == torch.bool else raw.view(dtype)


def moves(rank, count, dtype):
    """(name, tensors received, tensors expected) for each collective that only moves."""
    own = functools.partial(noise, rank, count=count, dtype=dtype)

    def empty(blocks=1):
        return torch.zeros(blocks * count, dtype=dtype)

    def of_all(to):
        return [noise(r, to, count, dtype) for r in range(RANKS)]

    tensor = own(0)
    dist.broadcast(tensor, 1)
    yield "broadcast", [tensor], [noise(1, 0, count, dtype)]
    outputs = [empty() for _ in range(RANKS)]
    dist.all_gather(outputs, own(0))
    yield "all_gather", outputs, of_all(0)
    output = empty(RANKS)
    dist.all_gather_single(output, own(0))
    yield "all_gather_single", list(output.reshape(RANKS, count)), of_all(0)
    outputs = [empty() for _ in range(RANKS)] if rank == 2 else None
    dist.gather(own(0), outputs, 2)
    yield "gather", outputs or [], of_all(0) if rank == 2 else []
    output = empty()
    dist.scatter(output, [own(to) for to in range(RANKS)] if rank == 1 else None, 1)
    yield "scatter", [output], [noise(1, rank, count, dtype)]
    outputs = [empty() for _ in range(RANKS)]
    dist.all_to_all(outputs, [own(to) for to in range(RANKS)])
    yield "all_to_all", outputs, of_all(rank)
    output = empty(RANKS)
    inputs = torch.cat([own(to).view(torch.uint8) for to in range(RANKS)])
    dist.all_to_all_single(output, inputs.view(dtype))
    yield "all_to_all_single", list(output.reshape(RANKS, count)), of_all(rank)
    request = dist.isend(own(7), (rank + 1) % RANKS)
    output = empty()
    dist.recv(output, (rank - 1) % RANKS)
    request.wait()
    yield "send and recv", [output], [noise((rank - 1) % RANKS, 7, count, dtype)]


# Below and above the size that is sent before the receiver asks for it.
@pytest.mark.parametrize("count", [0, 5, 40_000])
def test_collectives_that_only_move_keep_the_bits_of_every_type(ranks, count):
    def body(rank):
        return [
            (name, str(dtype))
            for dtype in TYPES
            for name, found, expected in moves(rank, count, dtype)
            if [bits(t) for t in found] != [bits(t) for t in expected]
        ], set(atp.torch.stats()["peers"])

    names = {"broadcast", "all_gather", "all_gather_single", "gather", "scatter", "all_to_all"}
    names |= {"all_to_all_single", "send", "recv"}
    assert ranks.run(RANKS, body) == [([], names)] * RANKS


FOLDS = {
    "SUM": torch.add,
    "AVG": torch.add,
    "PRODUCT": torch.mul,
    "MIN": torch.minimum,
    "MAX": torch.maximum,
    "BAND": torch.bitwise_and,
    "BOR": torch.bitwise_or,
    "BXOR": torch.bitwise_xor,
}


def has(op, dtype) -> bool:
    if op in ("BAND", "BOR", "BXOR"):
        return dtype == torch.bool or dtype in INTEGERS
    if op in ("MIN", "MAX"):
        return dtype not in COMPLEX
    return op != "AVG" or dtype != torch.bool


def small(rank, to, dtype):
    """Values for which every result is exact in every type."""
    return torch.tensor([1, 2, 3 + rank, 2 * to, rank % 2] * 7).to(dtype)


def folded(op, to, dtype):
    wide = dtype if dtype == torch.bool or dtype in INTEGERS else torch.complex128
    wide = torch.float64 if dtype in FLOATS else wide
    result = functools.reduce(FOLDS[op], [small(r, to, dtype).to(wide) for r in range(RANKS)])
    if op == "AVG":
        trunc = {"rounding_mode": "trunc"} if dtype in INTEGERS else {}
        result = torch.div(result, RANKS, **trunc)
    return result.to(dtype)


def reductions(rank, op, dtype):
    """(name, function) of each collective that reduces; the function returns found, expected."""
    reduce_op = getattr(dist.ReduceOp, op)

    def blocks():
        return [small(rank, to, dtype) for to in range(RANKS)]

    def reduce():
        tensor = small(rank, 0, dtype)
        dist.reduce(tensor, 1, op=reduce_op)
        expected = folded(op, 0, dtype)
        return tensor if rank == 1 else expected, expected

    def reduce_scatter():
        output = torch.zeros(35, dtype=dtype)
        dist.reduce_scatter(output, blocks(), op=reduce_op)
        return output, folded(op, rank, dtype)

    def reduce_scatter_single():
        output = torch.zeros(35, dtype=dtype)
        dist.reduce_scatter_single(output, torch.cat(blocks()), op=reduce_op)
        return output, folded(op, rank, dtype)

    return {f.__name__: f for f in (reduce, reduce_scatter, reduce_scatter_single)}


@pytest.mark.parametrize("op", FOLDS)
def test_every_reduction_of_every_type(ranks, op):
    def body(rank):
        wrong = []
        for dtype in [torch.bool, *INTEGERS, *FLOATS, *COMPLEX]:
            if not has(op, dtype):
                continue
            for name, function in reductions(rank, op, dtype).items():
                found, expected = function()
                if not torch.equal(found, expected):
                    wrong.append((name, str(dtype), found.tolist(), expected.tolist()))
        return wrong, atp.torch.stats()["innetwork"]

    assert ranks.run(RANKS, body) == [([], {})] * RANKS


@pytest.mark.parametrize("op", ["MIN", "BAND", "AVG"])
def test_a_reduction_that_a_type_does_not_have_is_refused_with_one_that_has_it(ranks, op):
    def body(rank):
        reduce_op = getattr(dist.ReduceOp, op)
        for dtype in [torch.bool, *FLOATS, *COMPLEX, *OTHERS]:
            if dtype not in OTHERS and has(op, dtype):
                continue
            tensor = torch.zeros(3, dtype=dtype)
            with pytest.raises(TypeError, match="^reduce: ") as error:
                dist.reduce(tensor, 1, op=reduce_op)
            advice = re.search(
                r"convert (?:it|the tensor) with \.(?:to\(torch\.)?(\w+)", str(error.value)
            )
            if advice is None:
                assert dtype.is_complex, error.value
                continue
            other = getattr(torch, advice[1])
            dist.reduce(tensor.to(other), 1, op=reduce_op)
            assert op == "BAND" or not dtype.is_floating_point or other.is_floating_point, dtype
            assert dtype.is_floating_point or other.itemsize >= dtype.itemsize, dtype
        tensor = torch.ones(3, dtype=torch.float64)
        dist.all_reduce(tensor)
        return tensor.tolist()

    assert ranks.run(RANKS, body) == [[3.0] * 3] * RANKS


def test_blocks_of_a_list_may_have_any_lengths(ranks):
    # Gloo refuses it.
    def body(rank):
        def block(source, to):
            return noise(source, to, 100 * source + to, torch.float32)

        outputs = [torch.zeros(100 * source + rank) for source in range(RANKS)]
        dist.all_to_all(outputs, [block(rank, to) for to in range(RANKS)])
        wrong = [bits(o) != bits(block(source, rank)) for source, o in enumerate(outputs)]
        outputs = [torch.zeros(100 * source) for source in range(RANKS)]
        dist.all_gather(outputs, block(rank, 0))
        wrong += [bits(o) != bits(block(source, 0)) for source, o in enumerate(outputs)]
        return any(wrong)

    assert ranks.run(RANKS, body) == [False] * RANKS


def test_lengths_by_rows_objects_and_several_calls_at_once(ranks):
    def cases(rank):
        mine = torch.arange(6.0, dtype=torch.float64) + 10 * rank
        # Rank r sends r + to values to rank `to`.
        sent = [rank + to for to in range(RANKS)]
        wide = torch.arange(2.0 * sum(sent)).reshape(-1, 2) + 100 * rank

        def all_to_all_single(group):
            output = torch.zeros(sum(sent), 2)
            dist.all_to_all_single(output, wide, sent, sent, group=group)
            return output

        def objects(group):
            gathered = [None] * RANKS if rank == 1 else None
            dist.gather_object({"rank": rank}, gathered, dst=1, group=group)
            scattered = [None]
            dist.scatter_object_list(scattered, [10, "twenty", None], src=0, group=group)
            moved = [rank, "x" * 1000 * rank]
            if rank == 0:
                dist.send_object_list(moved, dst=2, group=group)
            elif rank == 2:
                dist.recv_object_list(moved, src=0, group=group)
            return [gathered, scattered, moved]

        def coalesced(group):
            tensors = [mine.clone(), mine[:2].long()]
            with dist._coalescing_manager(group=group, device=mine.device, async_ops=True) as work:
                dist.all_reduce(tensors[0], group=group)
                dist.all_reduce(tensors[1], group=group)
            work.wait()
            return tensors

        def batch(group):
            output = torch.zeros_like(mine)
            after, before = (rank + 1) % RANKS, (rank - 1) % RANKS
            operations = [
                dist.P2POp(dist.isend, mine, after, group),
                dist.P2POp(dist.irecv, output, before, group),
            ]
            for work in dist.batch_isend_irecv(operations):
                work.wait()
            return output

        def any_source(group):
            word = torch.zeros(1)
            if rank != 0:
                dist.send(torch.tensor([float(rank)]), 0, group=group, tag=3)
                return []
            found = []
            for _ in range(RANKS - 1):
                source = dist.recv(word, group=group, tag=3)
                found.append([source, word.item()])
            return sorted(found)

        def tags(group):
            sent = [torch.tensor([value]) for value in (51, 61, 52)] if rank == 1 else []
            works = [dist.isend(t, 0, group=group, tag=t.item() // 10) for t in sent]
            words = [torch.zeros(1, dtype=torch.int64) for _ in range(3)]
            if rank == 0:
                for word, tag in zip(words, (6, 5, 5), strict=True):
                    dist.recv(word, 1, group=group, tag=tag)
            for work in works:
                work.wait()
            return words

        def hybrid(group):
            # Indices that coincide and indices that do not, each with two values.
            where = [[0, rank + 1], [2, 2]]
            tensor = torch.sparse_coo_tensor(where, mine[:4].reshape(2, 2), (5, 3, 2))
            dist.all_reduce(tensor, group=group)
            return tensor.to_dense()

        for function in (
            all_to_all_single, objects, coalesced, batch, any_source, tags, hybrid,
        ):  # fmt: skip
            yield function.__name__, function

    check_like_gloo(ranks, RANKS, cases)


@pytest.mark.parametrize("way", WAYS)
def test_nothing_needs_gloo(ranks, way, monkeypatch):
    monkeypatch.delattr(dist, "ProcessGroupGloo")

    def body(rank):
        group = dist.new_group([0, 2], pg_options=options_of(way))
        outputs = [None] * RANKS
        dist.all_gather_object(outputs, rank)
        if rank != 1:
            tensor = torch.full((10,), rank)
            dist.all_reduce(tensor, group=group, op=dist.ReduceOp.PRODUCT)
            dist.barrier(group=group)
        return outputs

    expected = [[0, 1, 2]] * RANKS
    assert ranks.run(RANKS, body, pg_options=options_of(way)) == expected


def test_a_transfer_of_far_more_than_fits_waits_for_its_receiver(ranks):
    # Both send first, which would deadlock if send() waited for buffer space.
    def body(rank):
        tensors = [torch.full((100_000,), 10.0 * rank + i) for i in range(20)]
        works = [dist.isend(tensor, 1 - rank, tag=i) for i, tensor in enumerate(tensors)]
        found = []
        for i in reversed(range(20)):
            output = torch.zeros(100_000)
            dist.recv(output, 1 - rank, tag=i)
            found.append((output == 10.0 * (1 - rank) + i).all().item())
        for work in works:
            work.wait()
        return all(found)

    assert ranks.run(2, body) == [True, True]
