"""Every collective gives tensors on a GPU the bits that it gives tensors on the CPU."""

import pytest
import torch
import torch.distributed as dist

import atp.torch

RANKS = 3
PLACES = {
    "in the host's memory": {"memory": True},
    "in the network": {"pg_options": atp.torch.Options(algorithm="innetwork")},
    "over a ring": {"pg_options": atp.torch.Options(algorithm="ring")},
}


def values(rank, count, dtype=torch.float32):
    numbers = torch.randn(count, generator=torch.Generator().manual_seed(rank))
    return numbers.to(dtype) if dtype.is_floating_point else (numbers * 50).to(dtype)


def all_reduce(dtype, op=dist.ReduceOp.SUM, count=5003):
    def run(rank, device):
        tensor = values(rank, count, dtype).to(device)
        dist.all_reduce(tensor, op)
        return [tensor]

    return run


def all_reduce_transposed(rank, device):
    tensor = values(rank, 600).to(device).view(20, 30).t()
    dist.all_reduce(tensor)
    return [tensor]


def all_reduce_sparse(rank, device):
    tensor = torch.sparse_coo_tensor([[rank, 5]], values(rank, 2), (9,)).to(device)
    dist.all_reduce(tensor)
    return [tensor.to_dense()]


def all_gather(rank, device):
    outputs = [torch.empty(7, device=device) for _ in range(RANKS)]
    dist.all_gather(outputs, values(rank, 7).to(device))
    return outputs


def all_gather_single(rank, device):
    output = torch.empty(7 * RANKS, device=device)
    dist.all_gather_into_tensor(output, values(rank, 7).to(device))
    return [output]


def reduce_scatter(rank, device):
    output = torch.empty(7, device=device)
    dist.reduce_scatter(output, list(values(rank, 7 * RANKS).to(device).chunk(RANKS)))
    return [output]


def reduce_scatter_single(rank, device):
    output = torch.empty(7, device=device)
    dist.reduce_scatter_tensor(output, values(rank, 7 * RANKS).to(device))
    return [output]


def broadcast(rank, device):
    tensor = values(rank, 7).to(device)
    dist.broadcast(tensor, 1)
    return [tensor]


def reduce(rank, device):
    tensor = values(rank, 7).to(device)
    dist.reduce(tensor, 1)
    return [tensor] if rank == 1 else []


def gather(rank, device):
    outputs = [torch.empty(7, device=device) for _ in range(RANKS)] if rank == 1 else None
    dist.gather(values(rank, 7).to(device), outputs, 1)
    return outputs or []


def scatter(rank, device):
    output = torch.empty(7, device=device)
    inputs = list(values(5, 7 * RANKS).to(device).chunk(RANKS)) if rank == 1 else None
    dist.scatter(output, inputs, 1)
    return [output]


def all_to_all_single(rank, device):
    lengths = torch.arange(RANKS * RANKS).view(RANKS, RANKS)
    output = torch.empty(int(lengths[:, rank].sum()), device=device)
    given = values(rank, int(lengths[rank].sum())).to(device)
    dist.all_to_all_single(output, given, lengths[:, rank].tolist(), lengths[rank].tolist())
    return [output]


def send_and_receive(rank, device):
    tensor = values(rank, 70_000).to(device)
    if rank == 0:
        dist.send(tensor, 2)
    elif rank == 2:
        dist.recv(tensor, 0)
    return [tensor]


def coalesced(rank, device):
    tensors = [values(rank + i, 50 + i).to(device) for i in range(4)]
    with dist._coalescing_manager():
        for tensor in tensors:
            dist.all_reduce(tensor)
    return tensors


def bytes_of(tensor):
    return tensor.cpu().contiguous().view(torch.uint8).numpy().tobytes()


CASES = {
    "all_reduce of float32": all_reduce(torch.float32),
    "all_reduce of many values": all_reduce(torch.float32, count=3_000_001),
    "all_reduce of no values": all_reduce(torch.float32, count=0),
    "all_reduce of bfloat16": all_reduce(torch.bfloat16),
    "all_reduce of float16": all_reduce(torch.float16),
    "all_reduce of float64": all_reduce(torch.float64),
    "all_reduce of int8": all_reduce(torch.int8),
    "all_reduce of int64": all_reduce(torch.int64),
    "an average": all_reduce(torch.float32, dist.ReduceOp.AVG),
    "an average of integers": all_reduce(torch.int32, dist.ReduceOp.AVG),
    "a maximum": all_reduce(torch.float32, dist.ReduceOp.MAX),
    "all_reduce of a transposed tensor": all_reduce_transposed,
    "all_reduce of a sparse tensor": all_reduce_sparse,
    "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_single,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter_tensor": reduce_scatter_single,
    "broadcast": broadcast,
    "reduce": reduce,
    "gather": gather,
    "scatter": scatter,
    "all_to_all_single with uneven blocks": all_to_all_single,
    "send and recv": send_and_receive,
    "coalesced all_reduces": coalesced,
}


@pytest.mark.parametrize("place", PLACES)
def test_results_have_the_bits_of_the_cpu(ranks, place):
    def body(rank):
        differing = []
        for name, case in CASES.items():
            on_gpu, on_cpu = (case(rank, device) for device in ("cuda", "cpu"))
            assert all(tensor.is_cuda for tensor in on_gpu)
            for ours, expected in zip(on_gpu, on_cpu, strict=True):
                if bytes_of(ours) != bytes_of(expected):
                    differing.append(name)
        dist.barrier()
        return differing

    assert ranks.run(RANKS, body, **PLACES[place]) == [[]] * RANKS


@pytest.mark.parametrize("place", PLACES)
def test_an_operation_orders_itself_between_the_work_of_the_callers_streams(ranks, place):
    """It reads what the current stream will have written, and after wait() every stream sees the
    result; torch.cuda._sleep turns a forgotten wait into a wrong sum."""

    def body(rank):
        one, other = torch.cuda.Stream(), torch.cuda.Stream()
        sums = []
        for step in range(10):
            with torch.cuda.stream(one):
                tensor = torch.zeros(1 << 20, device="cuda")
                torch.cuda._sleep(10_000_000)
                tensor += rank + step
                work = dist.all_reduce(tensor, async_op=True)
            work.wait()
            with torch.cuda.stream(other):
                sums.append(int((tensor == sum(range(RANKS)) + RANKS * step).sum()))
            future = dist.all_reduce(tensor, async_op=True).get_future()
            doubled = future.then(lambda done: done.value()[0] * 2).wait()
            sums.append(int((doubled == 2 * RANKS * (sum(range(RANKS)) + RANKS * step)).sum()))
        return sums

    for found in ranks.run(RANKS, body, **PLACES[place]):
        assert found == [1 << 20] * 20
