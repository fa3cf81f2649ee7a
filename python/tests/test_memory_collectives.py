"""The collectives other than all-reduce, in groups whose ranks share memory."""

import os
import signal

import pytest
import torch
import torch._C._distributed_c10d as c10d
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

import atp.torch

RANKS = 3
IN_MEMORY = {"memory": True, "route": ""}
FACTOR = 0.37
PREMUL = torch._C._distributed_c10d._make_nccl_premul_sum(FACTOR)
LENGTHS = (1, 5, 700, 100_003)


def values(rank, length, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * rank + length)
    return (torch.randn(length, generator=generator) * 100).to(dtype)


def bits(tensor):
    return tensor.clone(memory_format=torch.contiguous_format).view(torch.uint8).numpy().tobytes()


def operations(stats, path):
    return set(stats[path])


def gather_single(block):
    whole = torch.empty(RANKS * block.numel(), dtype=block.dtype)
    dist.all_gather_into_tensor(whole, block)
    return whole


def gather_in_place(block):
    """As in FSDP: the input is a part of the output."""
    whole = torch.zeros(RANKS * block.numel(), dtype=block.dtype)
    own = whole.narrow(0, dist.get_rank() * block.numel(), block.numel())
    own.copy_(block)
    dist.all_gather_into_tensor(whole, own)
    return whole


def gather_from_another_place(block):
    """The input is in the place of another rank's block, which must not change the result."""
    whole = torch.zeros(RANKS * block.numel(), dtype=block.dtype)
    other = whole.narrow(0, (dist.get_rank() + 1) % RANKS * block.numel(), block.numel())
    other.copy_(block)
    dist.all_gather_into_tensor(whole, other)
    return whole


def gather_list(block):
    blocks = [torch.empty_like(block) for _ in range(RANKS)]
    dist.all_gather(blocks, block)
    return torch.cat(blocks)


def gather_strided(block):
    whole = torch.empty(RANKS * block.numel(), 2, dtype=block.dtype)[:, 0]
    dist.all_gather(list(whole.chunk(RANKS)), torch.stack([block, block]).t()[:, 1])
    return whole


def gather_functional(block):
    return functional.all_gather_tensor(block, 0, dist.group.WORLD).wait()


GATHERS = [
    gather_single,
    gather_in_place,
    gather_from_another_place,
    gather_list,
    gather_strided,
    gather_functional,
]
TYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]


def test_every_all_gather_gives_all_blocks_to_all_ranks_whatever_the_type(ranks):
    def body(rank):
        wrong = [
            (gather.__name__, str(dtype), length)
            for gather in GATHERS
            for dtype in TYPES
            for length in LENGTHS
            if bits(gather(values(rank, length, dtype)))
            != bits(torch.cat([values(r, length, dtype) for r in range(RANKS)]))
        ]
        return (
            wrong,
            operations(atp.torch.stats(), "peers"),
            operations(atp.torch.stats(), "innetwork"),
        )

    for wrong, peers, atp_ in ranks.run(RANKS, body, **IN_MEMORY):
        assert not wrong and not peers
        assert atp_ == {"all_gather", "all_gather_single"} or "all_gather" in atp_


def test_blocks_may_be_of_different_lengths(ranks):
    def body(rank):
        lengths = [0, 7, 200_000]
        blocks = [torch.empty(length) for length in lengths]
        dist.all_gather(blocks, values(rank, lengths[rank]))
        whole = [values(10 + rank, length) for length in lengths]
        share = torch.empty(lengths[rank])
        dist.reduce_scatter(share, whole)
        given = [
            [values(10 + source, length) for length in lengths][rank] for source in range(RANKS)
        ]
        own = given[0] + given[1] + given[2]
        return [bits(block) for block in blocks], bits(share) == bits(own)

    expected = [bits(values(r, length)) for r, length in enumerate([0, 7, 200_000])]
    assert ranks.run(RANKS, body, **IN_MEMORY) == [(expected, True)] * RANKS


def scatter_single(whole, op):
    share = torch.empty(whole.numel() // RANKS, dtype=whole.dtype)
    dist.reduce_scatter_tensor(share, whole, op=op)
    return share


def scatter_in_place(whole, op):
    whole = whole.clone()
    share = whole.chunk(RANKS)[dist.get_rank()]
    dist.reduce_scatter_tensor(share, whole, op=op)
    return share


def scatter_to_another_place(whole, op):
    whole = whole.clone()
    share = whole.chunk(RANKS)[(dist.get_rank() + 1) % RANKS]
    dist.reduce_scatter_tensor(share, whole, op=op)
    return share


def scatter_list(whole, op):
    share = torch.empty(whole.numel() // RANKS, dtype=whole.dtype)
    dist.reduce_scatter(share, list(whole.chunk(RANKS)), op=op)
    return share


def scatter_strided(whole, op):
    share = torch.empty(whole.numel() // RANKS, 2, dtype=whole.dtype)[:, 0]
    dist.reduce_scatter(share, list(torch.stack([whole, whole], 1)[:, 1].chunk(RANKS)), op=op)
    return share


def scatter_asynchronously(whole, op):
    share = torch.empty(whole.numel() // RANKS, dtype=whole.dtype)
    dist.reduce_scatter_tensor(share, whole, op=op, async_op=True).get_future().wait()
    return share


SCATTERS = [
    scatter_single,
    scatter_in_place,
    scatter_to_another_place,
    scatter_list,
    scatter_strided,
    scatter_asynchronously,
]
REDUCTIONS = {
    torch.float32: ["SUM", "AVG", "MAX", "MIN", "PREMUL"],
    torch.bfloat16: ["SUM", "AVG", "MAX", "PREMUL"],
    torch.float16: ["SUM", "MIN"],
    torch.int32: ["SUM", "AVG", "MAX"],
    torch.int16: ["SUM", "AVG"],
    torch.int8: ["SUM", "MIN"],
    torch.uint8: ["SUM", "AVG"],
    torch.bool: ["SUM"],
}


def sums_for_one_rank(length, dtype, name, exact=False):
    """What a reduce and a reduce-scatter give of all ranks' values: an all-reduce's bits, but
    floats that need not be exact are added in the order of ranks."""
    op = PREMUL if name == "PREMUL" else getattr(dist.ReduceOp, name)
    if exact or not dtype.is_floating_point or name in ("MAX", "MIN"):
        whole = values(dist.get_rank(), length, dtype)
        dist.all_reduce(whole, op=op)
        return whole
    factor = FACTOR if name == "PREMUL" else 1
    sums = values(0, length, dtype).float() * factor
    for rank in range(1, RANKS):
        sums += values(rank, length, dtype).float() * factor
    return (sums / (RANKS if name == "AVG" else 1)).to(dtype)


@pytest.mark.parametrize("options", [{}, {"wire": "int16"}, {"exact": True}], ids=str)
def test_every_reduce_scatter_adds_floats_in_the_order_of_ranks(ranks, options):
    def body(rank):
        wrong = []
        for dtype, ops in REDUCTIONS.items():
            for name in ops:
                op = PREMUL if name == "PREMUL" else getattr(dist.ReduceOp, name)
                for length in (RANKS, 2100, 3 * 50_001):
                    whole = values(rank, length, dtype)
                    sums = sums_for_one_rank(length, dtype, name, "exact" in options)
                    own = bits(sums.chunk(RANKS)[rank])
                    scatters = SCATTERS if length == 2100 else SCATTERS[:1]
                    for scatter in scatters:
                        before = whole.clone()
                        if bits(scatter(whole, op)) != own or bits(before) != bits(whole):
                            wrong.append((scatter.__name__, str(dtype), name, length))
        return wrong, operations(atp.torch.stats(), "peers")

    group = atp.torch.Options(**options)
    assert ranks.run(RANKS, body, pg_options=group, **IN_MEMORY) == [([], set())] * RANKS


def test_what_the_network_does_not_add_stays_in_memory(ranks):
    def body(rank):
        share = torch.empty(2, dtype=torch.float64)
        dist.reduce_scatter_tensor(share, torch.ones(2 * RANKS, dtype=torch.float64))
        product = torch.empty(2)
        dist.reduce_scatter_tensor(product, torch.full((2 * RANKS,), 2.0), op=dist.ReduceOp.PRODUCT)
        bits_of_all = torch.tensor([1 << rank] * 100_000, dtype=torch.uint8)
        dist.all_reduce(bits_of_all, op=dist.ReduceOp.BOR)
        mean = torch.tensor([2.0 * rank], dtype=torch.complex64)
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        root = torch.tensor([1 << 40])
        dist.reduce(root, dst=0)
        results = [share[0], product[0], bits_of_all.max(), mean[0].real, root[0]]
        return [each.item() for each in results[: 5 if rank == 0 else 4]], atp.torch.stats()[
            "peers"
        ]

    expected = [RANKS, 2.0**RANKS, 2**RANKS - 1, RANKS - 1, RANKS << 40]
    others = [(expected[:4], {})] * (RANKS - 1)
    assert ranks.run(RANKS, body, **IN_MEMORY) == [(expected, {}), *others]


def test_a_reduce_of_floats_that_the_network_does_not_add_goes_over_the_peer_connections(ranks):
    def body(rank):
        tensor = torch.ones(2, dtype=torch.float64)
        dist.reduce(tensor, dst=0)
        return operations(atp.torch.stats(), "innetwork"), operations(atp.torch.stats(), "peers")

    assert ranks.run(RANKS, body, **IN_MEMORY) == [(set(), {"reduce"})] * RANKS


def test_ranks_that_ask_for_different_types_are_told(ranks):
    def body(rank):
        with pytest.raises(dist.DistBackendError) as error:
            dist.all_reduce(torch.ones(7, dtype=torch.int8 if rank == 1 else torch.float64))
        return str(error.value)

    for text in ranks.run(RANKS, body, **IN_MEMORY):
        assert "rank 1 has called a different operation" in text
        assert "the sum of 7 int8 values" in text and "the sum of 7 float64 values" in text


def test_a_broadcast_gives_all_ranks_the_roots_tensor(ranks):
    def body(rank):
        wrong = []
        for root in range(RANKS):
            for dtype in TYPES:
                for length in (0, *LENGTHS):
                    tensor = values(rank, length, dtype)
                    dist.broadcast(tensor, src=root)
                    strided = torch.stack([values(rank, length, dtype)] * 2, 1)[:, 1]
                    dist.broadcast(strided, src=root, async_op=True).wait()
                    for result in (tensor, strided):
                        if bits(result) != bits(values(root, length, dtype)):
                            wrong.append((root, str(dtype), length))
        return wrong, atp.torch.stats()["peers"]

    assert ranks.run(RANKS, body, **IN_MEMORY) == [([], {})] * RANKS


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_blocks_go_from_rank_to_rank(ranks, dtype):
    """Also strided ones, and ones that lie in the memory that is sent."""

    def block(source, target, length):
        return values(10 * source + target, length, dtype)

    def body(rank):
        wrong = []
        everyone = range(RANKS)

        def check(what, found, expected):
            if [bits(tensor) for tensor in found] != [bits(tensor) for tensor in expected]:
                wrong.append((what, length))

        for length in (0, *LENGTHS):
            to_others = [block(rank, other, length) for other in everyone]
            from_others = [block(other, rank, length) for other in everyone]
            for root in everyone:
                own = block(rank, root, length)
                gathered = [torch.empty_like(own) for _ in everyone] if rank == root else None
                dist.gather(own, gathered, dst=root)
                if rank == root:
                    check("gather", gathered, from_others)
                strided = torch.empty(length, 2, dtype=dtype)[:, 0]
                dist.scatter(strided, to_others if rank == root else None, src=root)
                check("scatter", [strided], [block(root, rank, length)])
            whole = torch.cat(to_others)
            dist.all_to_all_single(whole, whole)
            check("all_to_all_single", [whole], [torch.cat(from_others)])
            found = [torch.empty_like(tensor) for tensor in to_others]
            dist.all_to_all(found, to_others, async_op=True).wait()
            check("all_to_all", found, from_others)
        return (
            wrong,
            operations(atp.torch.stats(), "peers"),
            operations(atp.torch.stats(), "innetwork"),
        )

    all_ = {"gather", "scatter", "all_to_all", "all_to_all_single"}
    assert ranks.run(RANKS, body, **IN_MEMORY) == [([], set(), all_)] * RANKS


def test_blocks_whose_length_only_two_ranks_know(ranks):
    """One rank gives its splits, which are even, and another does not."""

    def body(rank):
        lengths = [[2, 2, 2], [2, 0, 150_000], [2, 90_000, 7]][rank]
        received = [[2, 2, 2], [2, 0, 90_000], [2, 150_000, 7]][rank]
        sent = torch.cat([values(10 * rank + to, n) for to, n in enumerate(lengths)])
        found = torch.empty(sum(received))
        splits = () if rank == 0 else (received, lengths)
        dist.all_to_all_single(found, sent, *splits)
        expected = [values(10 * source + rank, n) for source, n in enumerate(received)]
        return bits(found) == bits(torch.cat(expected)), operations(atp.torch.stats(), "peers")

    assert ranks.run(RANKS, body, **IN_MEMORY) == [(True, set())] * RANKS


def test_huge_values_do_not_make_their_neighbours_coarse(ranks):
    """DeepSpeed's ZeRO-3 leaves the padding of a reduce-scatter uninitialized."""

    def body(rank):
        whole = torch.full((RANKS * 512,), 1e-3 * (rank + 1))
        whole[1::2] = 1e30
        share = torch.empty(512)
        dist.reduce_scatter_tensor(share, whole)
        dist.reduce(whole, 0)
        expected = torch.tensor(1e-3) + torch.tensor(2e-3) + torch.tensor(3e-3)
        own = [share, whole] if rank == 0 else [share]
        return all(torch.equal(sum[::2], expected.expand(len(sum) // 2)) for sum in own)

    assert ranks.run(RANKS, body, **IN_MEMORY) == [True] * RANKS


def test_a_reduce_gives_its_root_the_sum_in_the_order_of_ranks(ranks):
    def body(rank):
        wrong = []
        for dtype, ops in REDUCTIONS.items():
            for name in ops:
                op = PREMUL if name == "PREMUL" else getattr(dist.ReduceOp, name)
                for root, length in enumerate((1, 2100, 150_001)):
                    tensor = values(rank, length, dtype)
                    sums = sums_for_one_rank(length, dtype, name)
                    strided = torch.stack([tensor, tensor], 1)[:, 1]
                    expected = sums if rank == root else tensor
                    for given in (tensor.clone(), strided):
                        dist.reduce(given, root, op=op)
                        if bits(given) != bits(expected):
                            wrong.append((str(dtype), name, length))
        return wrong, operations(atp.torch.stats(), "peers")

    assert ranks.run(RANKS, body, **IN_MEMORY) == [([], set())] * RANKS


def test_several_tensors_in_one_call(ranks):
    def body(rank):
        tensors = [torch.ones(5), torch.empty(0), torch.full((6, 3), 2.0)]
        gathered = functional.all_gather_into_tensor_coalesced(tensors, dist.group.WORLD)
        wholes = [torch.ones(6), torch.full((9, 2), float(rank))]
        shares = functional.reduce_scatter_tensor_coalesced(wholes, "sum", [0, 0], dist.group.WORLD)
        return [t.sum().item() for t in gathered], [t.sum().item() for t in shares]

    for gathered, shares in ranks.run(RANKS, body, **IN_MEMORY):
        assert gathered == [15, 0, 108] and shares == [6, 18]


def test_all_collectives_in_flight_end_in_any_order_of_waiting(ranks):
    def body(rank):
        works, results = [], []
        for i in range(30):
            block = torch.full((1 + 997 * i,), float(rank + i))
            whole = torch.empty(RANKS * block.numel())
            share = torch.empty(block.numel())
            works.append(dist.all_gather_into_tensor(whole, block, async_op=True))
            works.append(dist.broadcast(block.clone(), src=i % RANKS, async_op=True))
            ones = torch.ones(RANKS * block.numel())
            works.append(dist.reduce_scatter_tensor(share, ones, async_op=True))
            works.append(dist.all_reduce(torch.ones(100), async_op=True))
            turned = torch.empty_like(whole)
            sent = torch.full_like(whole, float(i))
            works.append(dist.all_to_all_single(turned, sent, async_op=True))
            results.append((whole, share, turned))
        for work in reversed(works):
            work.wait()
        return [
            (whole[-1].item(), share[0].item(), turned[-1].item())
            for whole, share, turned in results
        ]

    expected = [(float(RANKS - 1 + i), float(RANKS), float(i)) for i in range(30)]
    assert ranks.run(RANKS, body, **IN_MEMORY) == [expected] * RANKS


def test_the_digest_covers_only_all_reduces(ranks):
    def body(rank, others):
        for i in range(6):
            dist.all_reduce(values(rank, 1000 + i))
            if others:
                dist.broadcast(torch.ones(10), src=0)
                gather_single(torch.ones(10))
                dist.reduce(torch.ones(10), 0)
                dist.all_to_all_single(torch.empty(RANKS), torch.ones(RANKS))
        return atp.torch.digest(), atp.torch.stats()["digest"]["operations"]

    options = atp.torch.Options(digest_every=2)
    alone = ranks.run(RANKS, lambda rank: body(rank, False), pg_options=options, **IN_MEMORY)
    mixed = ranks.run(RANKS, lambda rank: body(rank, True), pg_options=options, **IN_MEMORY)
    assert len(set(alone + mixed)) == 1


def test_shapes_that_do_not_fit_are_refused(ranks):
    def body(rank):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        with pytest.raises(ValueError, match="all_gather_single: expected 9 values, 3 times the 3"):
            backend._allgather_base(torch.empty(7), torch.empty(3), c10d.AllgatherOptions()).wait()
        with pytest.raises(TypeError, match="input and output must have the same type"):
            backend._allgather_base(
                torch.empty(9, dtype=torch.int64), torch.empty(3), c10d.AllgatherOptions()
            ).wait()
        with pytest.raises(ValueError, match="expected 4 values in this rank's output"):
            outputs = [[torch.empty(3)] * RANKS]
            backend.allgather(outputs, [torch.empty(4)], c10d.AllgatherOptions()).wait()
        with pytest.raises(ValueError, match="expected 3 tensors, one for each rank, but found 1"):
            backend.reduce_scatter(
                [torch.empty(3)], [[torch.empty(3)]], c10d.ReduceScatterOptions()
            ).wait()
        with pytest.raises(ValueError, match="broadcast: expected a root among ranks 0 to 2"):
            options = c10d.BroadcastOptions()
            options.rootRank = 3
            backend.broadcast([torch.empty(3)], options).wait()
        dist.all_reduce(torch.ones(3))  # the group still works

    ranks.run(RANKS, body, **IN_MEMORY)


def test_ranks_that_call_different_operations_are_an_error(ranks):
    def body(rank):
        tensor = torch.ones(1000)
        # Which rank the error blames depends on which came first; both get it.
        both = r"a different operation, .*broadcast #0 \(1,000 values\), of float32 from rank 0"
        with pytest.raises(RuntimeError, match=both):
            if rank == 1:
                dist.broadcast(tensor, src=0)
            else:
                dist.all_reduce(tensor)

    ranks.run(RANKS, body, **IN_MEMORY)


@pytest.mark.parametrize("collective", ["gather", "scatter", "broadcast", "exchange", "reduce"])
def test_a_rank_that_is_killed_is_named(ranks, collective):
    call = {
        "gather": lambda: gather_single(torch.ones(100_000)),
        "scatter": lambda: scatter_single(torch.ones(3 * 100_000), dist.ReduceOp.SUM),
        "broadcast": lambda: dist.broadcast(torch.ones(100_000), src=0),
        "exchange": lambda: dist.all_to_all_single(torch.empty(300_000), torch.ones(300_000)),
        "reduce": lambda: dist.reduce(torch.ones(100_000), 0),
    }[collective]

    def body(rank):
        call()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match=r"rank 1 \(process \d+\) is lost"):
            call()

    options = {**IN_MEMORY, "waited_for": [0, 2], "timeout_s": 100}
    outcomes = ranks.outcomes(RANKS, body, **options)
    assert {outcome.error for outcome in outcomes} == {None}, [o.trace for o in outcomes]
    assert max(outcome.seconds for outcome in outcomes) < 50, "half of the time-out"
