"""Calls that do not go through the network: the same results and refusals as Gloo's."""

import datetime
import functools
import time

import pytest
import torch
import torch.distributed as dist

import atp.torch

from .gloo_oracle import all_reduce_of, check_equals_gloo, check_like_gloo
from .ways import WAYS, options_of

DTYPES = [
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.bool,
    torch.complex128,
]
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]


@pytest.mark.parametrize("op", OPS)
def test_all_reduce_of_all_data_types_that_gloo_supports(ranks, op):
    def cases(rank):
        for dtype in DTYPES:
            # Types that Gloo does not sum or average are in test_reductions.py.
            if dtype == torch.int16 or (
                op == "AVG" and not (dtype.is_floating_point or dtype.is_complex)
            ):
                continue
            tensor = torch.tensor([1, 2, 3 + rank], dtype=dtype)
            yield f"{op} of {dtype}", all_reduce_of(tensor, getattr(dist.ReduceOp, op))

    check = check_equals_gloo if op in ("SUM", "AVG", "MIN", "MAX") else check_like_gloo
    check(ranks, 2, cases)


def test_the_product_of_float32(ranks):
    def cases(rank):
        tensor = torch.tensor([1.5, -2.0, 0.25 * rank])
        yield "PRODUCT", all_reduce_of(tensor, dist.ReduceOp.PRODUCT)

    check_like_gloo(ranks, 3, cases)


def test_int16_wraps_around_in_its_own_type(ranks):
    def body(rank):
        tensor = torch.tensor([300, -5, 3 + rank], dtype=torch.int16)
        ops = (dist.ReduceOp.PRODUCT, dist.ReduceOp.BAND, dist.ReduceOp.BOR)
        narrow, wide = ([all_reduce_of(t, op)(None) for op in ops] for t in (tensor, tensor.int()))
        assert all(torch.equal(n, w.short()) for n, w in zip(narrow, wide, strict=True))
        return [result.dtype for result in narrow], narrow[0][0].item()

    # 90,000 modulo 2^16
    assert ranks.run(2, body) == [([torch.int16] * 3, 24464)] * 2


def test_a_complex_tensor_is_two_real_ones(ranks):
    # torch itself views it as float32 pairs before any backend sees it.
    def body(rank):
        tensor = torch.tensor([1 + 2j, 3 - 1j * rank])
        dist.all_reduce(tensor)
        return tensor.tolist()

    assert ranks.run(2, body) == [[2 + 4j, 6 - 1j]] * 2


def test_empty_and_sparse_tensors(ranks):
    def cases(rank):
        yield "empty", all_reduce_of(torch.empty(0), dist.ReduceOp.SUM)
        sparse = torch.sparse_coo_tensor([[rank]], [1.0 + rank], (4,))

        def sparse_sum(group):
            mine = sparse.clone()
            dist.all_reduce(mine, group=group)
            return mine.to_dense()

        yield "sparse", sparse_sum

    check_like_gloo(ranks, 2, cases)


def test_every_other_collective(ranks):
    def cases(rank):
        world = 3
        mine = torch.arange(4.0) + 10 * rank

        def broadcast(group):
            tensor = mine.clone()
            dist.broadcast(tensor, src=1, group=group)
            return tensor

        def reduce(group):
            tensor = mine.clone()
            dist.reduce(tensor, dst=1, group=group)
            return tensor if rank == 1 else None  # elsewhere it is undefined

        def all_gather(group):
            tensors = [torch.empty(4) for _ in range(world)]
            dist.all_gather(tensors, mine, group=group)
            return tensors

        def all_gather_single(group):
            output = torch.empty(4 * world)
            dist.all_gather_single(output, mine, group=group)
            return output

        def gather(group):
            tensors = [torch.empty(4) for _ in range(world)] if rank == 0 else None
            dist.gather(mine, tensors, dst=0, group=group)
            return tensors

        def scatter(group):
            output = torch.empty(4)
            inputs = [mine + i for i in range(world)] if rank == 2 else None
            dist.scatter(output, inputs, src=2, group=group)
            return output

        def reduce_scatter(group):
            output = torch.empty(4)
            dist.reduce_scatter(output, [mine + i for i in range(world)], group=group)
            return output

        def reduce_scatter_single(group):
            output = torch.empty(4)
            whole = torch.arange(4.0 * world) * (rank + 1)
            dist.reduce_scatter_single(output, whole, op=dist.ReduceOp.AVG, group=group)
            return output

        def all_to_all(group):
            outputs = [torch.empty(4) for _ in range(world)]
            dist.all_to_all(outputs, [mine + i for i in range(world)], group=group)
            return outputs

        def all_to_all_single(group):
            output = torch.empty(world)
            dist.all_to_all_single(output, torch.arange(float(world)) + rank, group=group)
            return output

        def send_and_receive(group):
            tensor = torch.empty(4)
            request = dist.isend(mine, (rank + 1) % world, group=group)
            source = dist.recv(tensor, group=group)
            request.wait()
            return [tensor, source]

        def objects(group):
            gathered = [None] * world
            dist.all_gather_object(gathered, {"rank": rank}, group=group)
            shared = [rank]
            dist.broadcast_object_list(shared, src=1, group=group)
            return [gathered, shared]

        def barrier(group):
            dist.barrier(group=group)

        for function in (
            broadcast, reduce, all_gather, all_gather_single, gather, scatter, reduce_scatter,
            reduce_scatter_single, all_to_all, all_to_all_single, send_and_receive, objects,
            barrier,
        ):  # fmt: skip
            yield function.__name__, function

    check_like_gloo(ranks, 3, cases)


@pytest.mark.needs_torch("2.14")  # Gloo does not have it
@pytest.mark.parametrize("way", WAYS)
def test_gather_single_puts_the_ranks_blocks_next_to_each_other(ranks, way):
    def body(rank):
        for dtype in (torch.float32, torch.int64, torch.uint8):
            block = torch.arange(6).to(dtype).view(2, 3) + rank
            strided = torch.empty(3, 3, 2, dtype=dtype).transpose(1, 2)
            for whole in (torch.empty(18, dtype=dtype), strided):
                work = dist.gather_single(block, whole if rank == 1 else None, 1, async_op=True)
                work.wait()
                blocks = [torch.arange(6).to(dtype).view(2, 3) + other for other in range(3)]
                if rank == 1:
                    assert torch.equal(whole.reshape(3, 2, 3), torch.stack(blocks))
        short = torch.empty(4)
        if rank == 1:
            with pytest.raises(ValueError, match="gather_single: expected 6 values"):
                dist.gather_single(torch.ones(2), short, 1)

    ranks.run(3, body, memory=way == "memory", pg_options=options_of(way))


def test_the_backend_offers_a_monitored_barrier(ranks):
    def body(rank):
        dist.group.WORLD._get_backend(torch.device("cpu")).monitored_barrier()

    ranks.run(2, body)


def test_a_monitored_barrier_with_no_time_names_missing_ranks_at_once(ranks):
    def body(rank):
        group = dist.new_group()
        if rank == 0:
            begin = time.monotonic()
            with pytest.raises(dist.DistBackendError, match="rank.* 1"):
                group.monitored_barrier(datetime.timedelta(0))
            assert time.monotonic() - begin < 5

    ranks.run(2, body)


# The calls, each with one tensor that is on another device: there().
CALLS = {
    "all_gather": lambda b, here, there: b.allgather([[here(3), there(3)]], [here(3)]),
    "all_gather_single": lambda b, here, there: b._allgather_base(there(6), here(3)),
    "all_gather_coalesced": lambda b, here, there: b.allgather_coalesced(
        [[here(3)], [there(3)]], [here(3)]
    ),
    "reduce_scatter": lambda b, here, there: b.reduce_scatter([there(3)], [[here(3), here(3)]]),
    "reduce_scatter of lists": lambda b, here, there: b.reduce_scatter(
        [here(3)], [[here(3), there(3)]]
    ),
    "reduce_scatter_single": lambda b, here, there: b._reduce_scatter_base(there(3), here(6)),
    "all_to_all": lambda b, here, there: b.alltoall([here(3), there(3)], [here(3), here(3)]),
    "all_to_all_single": lambda b, here, there: b.alltoall_base(there(6), here(6), [], []),
    "all_reduce": lambda b, here, there: b.allreduce([there(3)]),
    "broadcast": lambda b, here, there: b.broadcast([there(3)]),
    "send": lambda b, here, there: b.send([there(3)], 1, 0),
}


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_a_tensor_without_values_is_refused_with_advice_in_every_call(ranks, algorithm):
    def body(rank):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        texts = {}
        for name, call in CALLS.items():
            with pytest.raises(ValueError) as error:
                call(backend, torch.zeros, functools.partial(torch.empty, device="meta"))
            texts[name] = str(error.value)
        tensor = torch.ones(3)
        dist.all_reduce(tensor)  # the group still works
        assert tensor.tolist() == [2.0] * 3
        return texts

    options = atp.torch.Options(algorithm=algorithm)
    for texts in ranks.run(2, body, pg_options=options):
        for text in texts.values():
            assert "expected a tensor with values, and this one is on meta" in text
            assert "create it on the CPU or on a GPU" in text
