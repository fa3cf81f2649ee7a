"""For tests: collectives with unusual tensors, and what plain torch says that they must give.

A row is a collective, a form of its tensors, and a type. Every rank computes the inputs of all
ranks, so it knows the result without communicating. All values are small whole numbers, for which
every sum is exact in every type and order.
"""

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable, Iterator

import torch
import torch.distributed as dist

RANKS = 3
ROOT = 1
SUM, MAX = dist.ReduceOp.SUM, dist.ReduceOp.MAX
TYPES = (
    torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8,
    torch.int16, torch.int32, torch.int64, torch.bool, torch.complex64, torch.complex128,
    torch.float8_e4m3fn,
)  # fmt: skip
UNSUMMED = torch.float8_e4m3fn  # which is moved, but not reduced
FRESH = -1  # of a result before the call


@dataclasses.dataclass(frozen=True)
class Row:
    """`call(group)` returns (found, expected) lists of tensors."""

    name: str
    call: Callable
    must_be_refused: bool = False
    by: int | None = None  # only this rank makes the call, since it is refused there


def block(rank: int, to: int, count: int, dtype) -> torch.Tensor:
    """What `rank` has for rank `to`."""
    return ((torch.arange(count) * (rank + 1) + 2 * to + rank) % 5).to(dtype)


def blocks_of(rank: int, count: int, dtype) -> torch.Tensor:
    return torch.cat([block(rank, to, count, dtype) for to in range(RANKS)])


def fresh(count: int, dtype) -> torch.Tensor:
    return torch.full((count,), FRESH, dtype=torch.int64).to(dtype)


def total(tensors: Iterable[torch.Tensor], op=SUM) -> torch.Tensor:
    tensors = list(tensors)
    combine = torch.maximum if op == MAX else operator.add
    return functools.reduce(combine, tensors).to(tensors[0].dtype)


def sum_for(to: int, count: int, dtype, op=SUM) -> torch.Tensor:
    return total((block(rank, to, count, dtype) for rank in range(RANKS)), op)


# Forms of a single tensor: each makes one with these values, and with room of its own.


def plain(values):
    return values.clone()


def every_second(values):
    room = torch.zeros(2 * values.numel(), dtype=values.dtype)
    room[::2] = values
    return room[::2]


def transposed(values):
    rows = 3 if values.numel() % 3 == 0 else 1
    return values.clone().reshape(-1, rows).t().contiguous().t()


def within_a_larger_one(values):
    room = torch.zeros(values.numel() + 2, dtype=values.dtype)
    room[1:-1] = values
    return room[1:-1]


def misaligned(values):
    """At an address that is no multiple of its size. torch itself crashes where it reads or writes
    complex128 there, so only bytes are copied."""
    room = bytearray(16 * values.numel() + 16)
    torch.frombuffer(room, dtype=torch.uint8, count=values.nbytes, offset=1).copy_(
        values.contiguous().view(torch.uint8)
    )
    return torch.frombuffer(room, dtype=values.dtype, count=values.numel(), offset=1)


def aligned(tensor):
    if tensor.data_ptr() % tensor.element_size() == 0:
        return tensor
    return tensor.view(torch.uint8).clone().view(tensor.dtype)


def requiring_gradients(values):
    differentiable = values.is_floating_point() or values.is_complex()
    return values.clone().requires_grad_(differentiable)


def conjugated(values):
    return values.conj().resolve_conj().clone().conj() if values.is_complex() else values.clone()


def negated(values):
    if values.dtype in (torch.bool, UNSUMMED):  # which torch cannot negate
        return values.clone()
    return torch._neg_view((-values).clone())


FORMS = {
    "contiguous tensors": plain,
    "every second value": every_second,
    "transposed tensors": transposed,
    "the middle of a larger tensor": within_a_larger_one,
    "misaligned memory": misaligned,
    "leaves that require gradients": requiring_gradients,
    "conjugate views": conjugated,
    "negative views": negated,
}


# torch passes every backend, Gloo too, a copy of such a view, and what is written there is lost.
INPUTS_ONLY = (conjugated, negated)


def result_of(form):
    """The form of a result where the inputs have this one."""
    return plain if form in INPUTS_ONLY else form


def same_values(tensor, flat):
    """As plain torch reads it, whatever its form."""
    return torch.equal(
        aligned(tensor.detach()).resolve_conj().resolve_neg().reshape(-1), flat.reshape(-1)
    )


# The collectives with tensors of one form. `form` makes every tensor.


def all_reduce(group, rank, form, count, dtype, op=SUM):
    tensor = form(block(rank, 0, count, dtype))
    dist.all_reduce(tensor, op=op, group=group)
    return [tensor], [sum_for(0, count, dtype, op)]


def all_reduce_coalesced(group, rank, form, count, dtype, op=SUM):
    tensors = [form(block(rank, 0, count, dtype)), form(block(rank, 1, 2 * count, dtype))]
    dist.all_reduce_coalesced(tensors, op=op, group=group)
    return tensors, [sum_for(0, count, dtype, op), sum_for(1, 2 * count, dtype, op)]


def reduce(group, rank, form, count, dtype, op=SUM):
    tensor = form(block(rank, 0, count, dtype))
    dist.reduce(tensor, group_dst=ROOT, op=op, group=group)
    return ([tensor], [sum_for(0, count, dtype, op)]) if rank == ROOT else ([], [])


def broadcast(group, rank, form, count, dtype):
    tensor = form(block(rank, 0, count, dtype))
    dist.broadcast(tensor, group_src=ROOT, group=group)
    return [tensor], [block(ROOT, 0, count, dtype)]


def all_gather(group, rank, form, count, dtype):
    outputs = [result_of(form)(fresh(count, dtype)) for _ in range(RANKS)]
    dist.all_gather(outputs, form(block(rank, 0, count, dtype)), group=group)
    return outputs, [block(r, 0, count, dtype) for r in range(RANKS)]


def all_gather_into_tensor(group, rank, form, count, dtype):
    output = result_of(form)(fresh(RANKS * count, dtype))
    dist.all_gather_into_tensor(output, form(block(rank, 0, count, dtype)), group=group)
    return [output], [torch.cat([block(r, 0, count, dtype) for r in range(RANKS)])]


def all_gather_coalesced(group, rank, form, count, dtype):
    outputs = [result_of(form)(fresh(RANKS * count, dtype)) for _ in range(2)]
    inputs = [form(block(rank, i, count, dtype)) for i in range(2)]
    group_of(group).allgather_into_tensor_coalesced(outputs, inputs).wait()
    return outputs, [torch.cat([block(r, i, count, dtype) for r in range(RANKS)]) for i in range(2)]


def gather(group, rank, form, count, dtype):
    outputs = [result_of(form)(fresh(count, dtype)) for _ in range(RANKS)] if rank == ROOT else None
    dist.gather(form(block(rank, 0, count, dtype)), outputs, group_dst=ROOT, group=group)
    return outputs or [], [block(r, 0, count, dtype) for r in range(RANKS)] if outputs else []


def scatter(group, rank, form, count, dtype):
    output = result_of(form)(fresh(count, dtype))
    inputs = [form(block(ROOT, to, count, dtype)) for to in range(RANKS)] if rank == ROOT else None
    dist.scatter(output, inputs, group_src=ROOT, group=group)
    return [output], [block(ROOT, rank, count, dtype)]


def reduce_scatter(group, rank, form, count, dtype, op=SUM):
    output = result_of(form)(fresh(count, dtype))
    inputs = [form(block(rank, to, count, dtype)) for to in range(RANKS)]
    dist.reduce_scatter(output, inputs, op=op, group=group)
    return [output], [sum_for(rank, count, dtype, op)]


def reduce_scatter_tensor(group, rank, form, count, dtype, op=SUM):
    output = result_of(form)(fresh(count, dtype))
    dist.reduce_scatter_tensor(output, form(blocks_of(rank, count, dtype)), op=op, group=group)
    return [output], [sum_for(rank, count, dtype, op)]


def reduce_scatter_coalesced(group, rank, form, count, dtype, op=SUM):
    outputs = [result_of(form)(fresh(count, dtype)) for _ in range(2)]
    inputs = [form(blocks_of(rank, count, dtype)) for _ in range(2)]
    options = dist.ReduceScatterOptions()
    options.reduceOp = op
    group_of(group).reduce_scatter_tensor_coalesced(outputs, inputs, options).wait()
    return outputs, [sum_for(rank, count, dtype, op)] * 2


def all_to_all(group, rank, form, count, dtype):
    outputs = [result_of(form)(fresh(count, dtype)) for _ in range(RANKS)]
    inputs = [form(block(rank, to, count, dtype)) for to in range(RANKS)]
    dist.all_to_all(outputs, inputs, group=group)
    return outputs, [block(r, rank, count, dtype) for r in range(RANKS)]


def all_to_all_single(group, rank, form, count, dtype):
    output = result_of(form)(fresh(RANKS * count, dtype))
    rows = form(blocks_of(rank, count, dtype))
    if rows.dim() > 1 and rows.size(0) % RANKS:
        rows, output = plain(rows), plain(output)
    dist.all_to_all_single(output, rows, group=group)
    return [output], [torch.cat([block(r, rank, count, dtype) for r in range(RANKS)])]


def all_to_all_single_uneven(group, rank, form, count, dtype):
    """Rank r sends r + to + 1 values to rank `to`."""
    lengths = [rank + other + 1 for other in range(RANKS)]
    sent = torch.cat([block(rank, to, n, dtype) for to, n in enumerate(lengths)])
    output = fresh(sum(lengths), dtype)
    rows = sent
    if form is not transposed:  # whose first dimension is another
        output, rows = result_of(form)(output), form(sent)
    dist.all_to_all_single(output, rows, lengths, lengths, group=group)
    return [output], [torch.cat([block(r, rank, r + rank + 1, dtype) for r in range(RANKS)])]


def send_and_recv(group, rank, form, count, dtype):
    sent = form(block(rank, 0, count, dtype))
    work = dist.isend(sent, group_dst=(rank + 1) % RANKS, group=group)
    found = result_of(form)(fresh(count, dtype))
    dist.recv(found, group_src=(rank - 1) % RANKS, group=group)
    work.wait()
    return [found], [block((rank - 1) % RANKS, 0, count, dtype)]


def barrier(group, rank, form, count, dtype, op=SUM):
    """Leaves an operation in progress alone."""
    tensor = form(block(rank, 0, count, dtype))
    work = dist.all_reduce(tensor, op=op, group=group, async_op=True)
    dist.barrier(group=group)
    work.wait()
    return [tensor], [sum_for(0, count, dtype, op)]


IN_PLACE = (all_reduce, all_reduce_coalesced, reduce, broadcast, barrier)
REDUCING = (
    all_reduce, all_reduce_coalesced, reduce, reduce_scatter, reduce_scatter_tensor,
    reduce_scatter_coalesced, barrier,
)  # fmt: skip
COLLECTIVES = (
    all_reduce, all_reduce_coalesced, reduce, broadcast, all_gather, all_gather_into_tensor,
    all_gather_coalesced, gather, scatter, reduce_scatter, reduce_scatter_tensor,
    reduce_scatter_coalesced, all_to_all, all_to_all_single, all_to_all_single_uneven,
    send_and_recv, barrier,
)  # fmt: skip


def group_of(group):
    """For the two collectives without a function in torch.distributed."""
    return group or dist.group.WORLD


def reductions_of(collective, dtype) -> dict[str, dict]:
    """{its part of a row's name: arguments of the collective}"""
    if collective not in REDUCING or dtype.is_complex or dtype == UNSUMMED:
        return {"": {}}
    return {"": {}, "MAX, ": {"op": MAX}}


def without_dimensions(values):
    return values.reshape(()).clone()


def forms_of(collective, count: int) -> Iterator[tuple[str, Callable, int]]:
    """(name, form, number of values)"""
    for name, form in FORMS.items():
        if form in INPUTS_ONLY and collective in IN_PLACE:
            continue
        # Only the root would learn that torch's own functions refuse such views.
        if form is conjugated and collective is scatter:
            continue
        yield name, form, count
    yield "no values", plain, 0
    yield "one value", plain, 1
    if collective in (all_reduce, reduce, broadcast, all_gather, gather, scatter, all_to_all):
        yield "tensors without dimensions", without_dimensions, 1


def rows(rank: int, count: int, dtype) -> Iterator[Row]:
    """All rows; those with one form have tensors of `count` values, of none, and of one."""
    for collective in COLLECTIVES:
        for name, form, size in forms_of(collective, count):
            for reduction, arguments in reductions_of(collective, dtype).items():
                yield Row(
                    f"{collective.__name__} of {name}, {reduction}{dtype}",
                    lambda group, c=collective, f=form, n=size, a=arguments: c(
                        group, rank, f, n, dtype, **a
                    ),
                    must_be_refused=collective in REDUCING and dtype == UNSUMMED,
                )
