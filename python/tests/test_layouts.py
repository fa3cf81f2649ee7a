"""Tensors of any layout: every collective treats them like contiguous ones of the same values."""

import pytest
import torch
import torch.distributed as dist

import atp.torch

SIZE = 2


def filled(tensor, values):
    tensor.copy_(values)
    return tensor


SHAPE = (2, 2, 3, 2)  # like an image, so that it has a channels_last form
LAYOUTS = {
    "contiguous": lambda: torch.empty(SHAPE),
    "every second": lambda: torch.empty((2, 2, 3, 4))[..., ::2],
    "transposed": lambda: torch.empty((2, 3, 2, 2)).permute(3, 0, 1, 2),
    "channels_last": lambda: torch.empty(SHAPE).to(memory_format=torch.channels_last),
    "a slice": lambda: torch.empty((4, 4, 5, 4))[1:3, 1:3, 1:4, 1:3],
}


def values(rank):
    return torch.arange(24.0).reshape(SHAPE) * (rank + 1)


def collectives(make):
    """(name, function of the rank, expected result); make(values) makes the tensors."""

    def empty():
        return make(torch.full(SHAPE, -1.0))

    def all_reduce(rank):
        tensor = make(values(rank))
        dist.all_reduce(tensor)
        return tensor

    def average_of_integers(rank):
        tensor = make(values(rank)).to(torch.int32, memory_format=torch.preserve_format)
        dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
        return tensor

    def broadcast(rank):
        tensor = make(values(rank))
        dist.broadcast(tensor, src=1)
        return tensor

    def reduce(rank):
        tensor = make(values(rank))
        dist.reduce(tensor, dst=1)
        return tensor if rank == 1 else None

    def all_gather(rank):
        outputs = [empty() for _ in range(SIZE)]
        dist.all_gather(outputs, make(values(rank)))
        return torch.stack(outputs)

    def gather(rank):
        outputs = [empty() for _ in range(SIZE)] if rank == 0 else None
        dist.gather(make(values(rank)), outputs, dst=0)
        return torch.stack(outputs) if outputs else None

    def scatter(rank):
        tensor = empty()
        inputs = [make(values(r)) for r in range(SIZE)] if rank == 0 else None
        dist.scatter(tensor, inputs, src=0)
        return tensor

    def reduce_scatter(rank):
        tensor = empty()
        dist.reduce_scatter(tensor, [make(values(rank + r)) for r in range(SIZE)])
        return tensor

    def all_to_all(rank):
        outputs = [empty() for _ in range(SIZE)]
        dist.all_to_all(outputs, [make(values(rank + r)) for r in range(SIZE)])
        return torch.stack(outputs)

    def all_gather_single(rank):
        output = torch.empty((SIZE * SHAPE[0], *SHAPE[1:]))
        dist.all_gather_single(output, make(values(rank)))
        return output

    def send_and_receive(rank):
        tensor = make(values(rank))
        if rank == 0:
            dist.send(tensor, 1)
        else:
            dist.recv(tensor, 0)
        return tensor

    def receive_from_anyone(rank):
        tensor = make(values(rank))
        if rank == 1:
            dist.send(tensor, 0)
        else:
            assert dist.recv(tensor) == 1
        return tensor

    return [
        all_reduce, average_of_integers, broadcast, reduce, all_gather, gather, scatter,
        reduce_scatter, all_to_all, all_gather_single, send_and_receive, receive_from_anyone,
    ]  # fmt: skip


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize(
    "layouts", [(name, name) for name in LAYOUTS] + [("transposed", "a slice")]
)
def test_every_collective_of_every_layout(ranks, algorithm, layouts):
    def body(rank):
        def make(content):
            return filled(LAYOUTS[layouts[rank]](), content)

        ours = [(function.__name__, function(rank)) for function in collectives(make)]
        plain = [function(rank) for function in collectives(torch.clone)]
        for (name, mine), expected in zip(ours, plain, strict=True):
            if expected is not None:
                torch.testing.assert_close(mine, expected, rtol=0, atol=0, msg=name)

    ranks.run(SIZE, body, pg_options=atp.torch.Options(algorithm=algorithm))


@pytest.mark.parametrize("algorithm, size", [("innetwork", 2), ("ring", 2), ("innetwork", 1)])
def test_an_expanded_tensor_is_written_in_place(ranks, algorithm, size):
    def body(rank):
        def expanded(value):
            return torch.full((1, 3), float(value)).expand(4, 3)

        results = {}
        results["all_reduce"] = expanded(rank + 1)
        dist.all_reduce(results["all_reduce"])
        results["of a scalar"] = torch.tensor(rank + 1.0).expand(5)
        dist.all_reduce(results["of a scalar"])
        results["AVG of integers"] = torch.tensor([rank + 3]).expand(2)
        dist.all_reduce(results["AVG of integers"], op=dist.ReduceOp.AVG)
        results["broadcast"] = expanded(rank + 1)
        dist.broadcast(results["broadcast"], src=0)
        results["all_gather"] = expanded(0)
        outputs = [torch.empty(4, 3) for _ in range(size)]
        outputs[0] = results["all_gather"]
        dist.all_gather(outputs, torch.full((4, 3), rank + 7.0))
        assert all(tensor.stride(0) == 0 for tensor in results.values())
        return {name: tensor.unique().tolist() for name, tensor in results.items()}

    total = float(sum(range(1, size + 1)))
    expected = {
        "all_reduce": [total],
        "of a scalar": [total],
        "AVG of integers": [3],
        "broadcast": [1.0],
        "all_gather": [7.0],
    }
    options = atp.torch.Options(algorithm=algorithm)
    assert ranks.run(size, body, pg_options=options) == [expected] * size


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_a_result_that_an_expanded_tensor_cannot_hold_is_an_error(ranks, algorithm):
    def body(rank):
        outputs = [torch.empty(4), torch.empty(1).expand(4)]
        with pytest.raises(ValueError, match="expanded tensor share one memory location"):
            dist.all_gather(outputs, torch.arange(4.0))

    ranks.run(2, body, pg_options=atp.torch.Options(algorithm=algorithm))


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
def test_other_overlapping_elements_are_refused(ranks, algorithm):
    def body(rank):
        windows = torch.arange(6.0).unfold(0, 3, 1)  # each element in up to three of them
        interleaved = torch.arange(24.0).as_strided((2, 3), (3, 2))  # no two overlap
        for call in (dist.all_reduce, lambda t: dist.broadcast(t, src=0)):
            with pytest.raises(ValueError, match=r"share one memory location; pass tensor.clone"):
                call(windows)
        before = interleaved.clone()
        dist.all_reduce(interleaved)
        return torch.equal(interleaved, 2 * before)

    assert ranks.run(2, body, pg_options=atp.torch.Options(algorithm=algorithm)) == [True] * 2


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_tensors_without_elements(ranks, algorithm, dtype):
    def body(rank):
        empty = torch.empty((0, 3), dtype=dtype)
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            dist.all_reduce(empty, op=op)
        dist.broadcast(empty, src=0)
        dist.all_gather([torch.empty_like(empty) for _ in range(2)], empty)
        dist.reduce_scatter(torch.empty_like(empty), [empty, empty])
        one = torch.ones(1, dtype=dtype)
        dist.all_reduce(one)
        return one.item()

    assert ranks.run(2, body, pg_options=atp.torch.Options(algorithm=algorithm)) == [2] * 2
