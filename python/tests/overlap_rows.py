"""For tests: collectives whose tensors share memory (see argument_rows.py)."""

from collections.abc import Callable, Iterator

import torch
import torch.distributed as dist

from .argument_rows import RANKS, ROOT, block, blocks_of, fresh, group_of, sum_for, total


def windows(count: int, dtype) -> torch.Tensor:
    """`count` rows of 3 values, each of them in up to three rows."""
    return torch.arange(count + 2).remainder(5).to(dtype).unfold(0, 3, 1)


def overlapping(rank: int, count: int, dtype) -> Iterator[tuple[str, Callable]]:
    """(name, call) of calls whose results are right: as if every input were read first."""
    others = (rank + 1) % RANKS
    gathered = [block(r, 0, count, dtype) for r in range(RANKS)]

    def place(index, length=count):
        return slice(index * length, (index + 1) * length)

    def gather_from(begin):
        def call(group):
            output = fresh(RANKS * count, dtype)
            own = output[begin : begin + count].copy_(block(rank, 0, count, dtype))
            dist.all_gather_into_tensor(output, own, group=group)
            return [output], [torch.cat(gathered)]

        return call

    last = (RANKS - 1) * count
    yield "all_gather_into_tensor from its own place", gather_from(rank * count)
    yield "all_gather_into_tensor from another's place", gather_from(others * count)
    yield (
        "all_gather_into_tensor from across two places",
        gather_from(min(rank * count + count // 2, last)),
    )

    def gather_list_from(index):
        def call(group):
            outputs = [fresh(count, dtype) for _ in range(RANKS)]
            outputs[index].copy_(block(rank, 0, count, dtype))
            dist.all_gather(outputs, outputs[index], group=group)
            return outputs, gathered

        return call

    yield "all_gather whose input is its own output", gather_list_from(rank)
    yield "all_gather whose input is another's output", gather_list_from(others)

    def gather_coalesced_crossed(group):
        """Each output holds the input of the other one."""
        rooms = [fresh(RANKS * count, dtype) for _ in range(2)]
        inputs = [rooms[1 - i][place(others)].copy_(block(rank, i, count, dtype)) for i in range(2)]
        group_of(group).allgather_into_tensor_coalesced(rooms, inputs).wait()
        return rooms, [
            torch.cat([block(r, i, count, dtype) for r in range(RANKS)]) for i in range(2)
        ]

    yield "all_gather coalesced, from each other's outputs", gather_coalesced_crossed

    def gathered_columns(group):
        room = torch.zeros((count, RANKS), dtype=dtype)
        dist.all_gather(list(room.t().unbind()), block(rank, 0, count, dtype), group=group)
        return [room.t().contiguous()], [torch.cat(gathered)]

    yield "all_gather to the columns of one tensor", gathered_columns

    def scatter_to(begin):
        def call(group):
            room = blocks_of(rank, count, dtype)
            output = room[begin : begin + count]
            dist.reduce_scatter_tensor(output, room, group=group)
            return [output], [sum_for(rank, count, dtype)]

        return call

    yield "reduce_scatter_tensor to its own place", scatter_to(rank * count)
    yield "reduce_scatter_tensor to the place before", scatter_to((rank - 1) % RANKS * count)
    yield "reduce_scatter_tensor to the place after", scatter_to(others * count)
    yield (
        "reduce_scatter_tensor to across two places",
        scatter_to(min(rank * count + count // 2, last)),
    )

    def scatter_list_to(index):
        def call(group):
            inputs = [block(rank, to, count, dtype) for to in range(RANKS)]
            dist.reduce_scatter(inputs[index], inputs, group=group)
            return [inputs[index]], [sum_for(rank, count, dtype)]

        return call

    yield "reduce_scatter to its own input", scatter_list_to(rank)
    yield "reduce_scatter to the input before", scatter_list_to((rank - 1) % RANKS)
    yield "reduce_scatter to the input after", scatter_list_to(others)

    def scatter_one_input(group):
        one = block(rank, 0, count, dtype)
        output = fresh(count, dtype)
        dist.reduce_scatter(output, [one] * RANKS, group=group)
        return [output], [sum_for(0, count, dtype)]

    yield "reduce_scatter of one tensor for all", scatter_one_input

    def scatter_coalesced_crossed(group):
        rooms = [blocks_of(rank, count, dtype), blocks_of(rank, count, dtype)]
        outputs = [rooms[1 - i][place((rank - 1) % RANKS)] for i in range(2)]
        group_of(group).reduce_scatter_tensor_coalesced(outputs, rooms).wait()
        return outputs, [sum_for(rank, count, dtype)] * 2

    yield "reduce_scatter coalesced, to each other's inputs", scatter_coalesced_crossed

    def exchange(shift):
        def call(group):
            inputs = [block(rank, to, count, dtype) for to in range(RANKS)]
            outputs = inputs[shift:] + inputs[:shift]
            dist.all_to_all(outputs, inputs, group=group)
            return outputs, [block(r, rank, count, dtype) for r in range(RANKS)]

        return call

    yield "all_to_all in place", exchange(0)
    yield "all_to_all in place, shifted by one", exchange(1)

    def exchange_single(group):
        room = blocks_of(rank, count, dtype)
        dist.all_to_all_single(room, room, group=group)
        return [room], [torch.cat([block(r, rank, count, dtype) for r in range(RANKS)])]

    yield "all_to_all_single in place", exchange_single

    def exchange_uneven_across(group):
        lengths = [rank + other + 1 for other in range(RANKS)]
        size = sum(lengths)
        room = fresh(size + 2, dtype)
        sent = torch.cat([block(rank, to, n, dtype) for to, n in enumerate(lengths)])
        room[:size] = sent
        output = room[2:]
        dist.all_to_all_single(output, room[:size], lengths, lengths, group=group)
        return [output], [torch.cat([block(r, rank, r + rank + 1, dtype) for r in range(RANKS)])]

    yield "all_to_all_single, uneven, to two values further", exchange_uneven_across

    def gathered_at_root(group):
        outputs = [fresh(count, dtype) for _ in range(RANKS)] if rank == ROOT else None
        own = outputs[(rank + 1) % RANKS] if outputs else torch.empty(count, dtype=dtype)
        own.copy_(block(rank, 0, count, dtype))
        dist.gather(own, outputs, group_dst=ROOT, group=group)
        return outputs or [], gathered if outputs else []

    yield "gather whose input is another's output", gathered_at_root

    def scattered_at_root(group):
        inputs = [block(ROOT, to, count, dtype) for to in range(RANKS)] if rank == ROOT else None
        output = inputs[(rank + 1) % RANKS] if inputs else fresh(count, dtype)
        dist.scatter(output, inputs, group_src=ROOT, group=group)
        return [output], [block(ROOT, rank, count, dtype)]

    yield "scatter whose output is another's input", scattered_at_root

    def summed_halves(group):
        room = blocks_of(rank, 2, dtype).repeat(count)
        halves = [room[::2], room[1::2]]
        dist.all_reduce_coalesced(halves, group=group)
        return [room], [total(blocks_of(r, 2, dtype).repeat(count) for r in range(RANKS))]

    yield "all_reduce_coalesced of values that alternate", summed_halves

    def windows_gathered(group):
        outputs = [fresh(3 * count, dtype) for _ in range(RANKS)]
        dist.all_gather(outputs, windows(count, dtype), group=group)
        return outputs, [windows(count, dtype).reshape(-1)] * RANKS

    yield "all_gather of windows into one row", windows_gathered

    def expanded_input(group):
        output = fresh(RANKS * count, dtype)
        one = block(rank, 3, 1, dtype).expand(count)
        dist.all_gather_into_tensor(output, one, group=group)
        return [output], [torch.cat([block(r, 3, 1, dtype).expand(count) for r in range(RANKS)])]

    yield "all_gather_into_tensor of an expanded tensor", expanded_input

    def expanded_sum(group):
        tensor = block(rank, 3, 1, dtype).expand(count)
        dist.all_reduce(tensor, group=group)
        return [tensor], [sum_for(3, 1, dtype).expand(count)]

    yield "all_reduce of an expanded tensor", expanded_sum

    def expanded_scatter(group):
        output = fresh(1, dtype).expand(count)
        inputs = [block(rank, 3 + to, 1, dtype).expand(count) for to in range(RANKS)]
        dist.reduce_scatter(output, inputs, group=group)
        return [output], [sum_for(3 + rank, 1, dtype).expand(count)]

    yield "reduce_scatter of expanded tensors", expanded_scatter


def colliding(rank: int, count: int, dtype) -> Iterator[tuple[str, Callable, int | None]]:
    """(name, call, the only rank that makes it) of calls whose results would collide."""

    def gather_twice(group):
        one = fresh(count, dtype)
        dist.all_gather([one, one, fresh(count, dtype)], block(rank, 0, count, dtype), group=group)

    yield "all_gather to one tensor twice", gather_twice, None

    def gather_across(group):
        room = fresh(2 * count, dtype)
        outputs = [room[:count], room[count - 1 : -1], fresh(count, dtype)]
        dist.all_gather(outputs, block(rank, 0, count, dtype), group=group)

    yield "all_gather to tensors that share a value", gather_across, None

    def gather_coalesced_twice(group):
        room = fresh(RANKS * count, dtype)
        inputs = [block(rank, i, count, dtype) for i in range(2)]
        group_of(group).allgather_into_tensor_coalesced([room, room], inputs).wait()

    yield "all_gather coalesced, to one tensor twice", gather_coalesced_twice, None

    def sum_twice(group):
        one = block(rank, 0, count, dtype)
        dist.all_reduce_coalesced([one, one], group=group)

    yield "all_reduce_coalesced of one tensor twice", sum_twice, None

    def sum_across(group):
        room = block(rank, 0, 2 * count, dtype)
        dist.all_reduce_coalesced([room[: count + 1], room[count:]], group=group)

    yield "all_reduce_coalesced of tensors that share a value", sum_across, None

    def sum_of_whole_and_part(group):
        room = block(rank, 0, 2 * count, dtype)
        dist.all_reduce_coalesced([room, room[1::2]], group=group)

    yield "all_reduce_coalesced of a tensor and every second value", sum_of_whole_and_part, None

    def scatter_coalesced_twice(group):
        one = fresh(count, dtype)
        inputs = [blocks_of(rank, count, dtype) for _ in range(2)]
        group_of(group).reduce_scatter_tensor_coalesced([one, one], inputs).wait()

    yield "reduce_scatter coalesced, to one tensor twice", scatter_coalesced_twice, None

    def exchange_twice(group):
        one = fresh(count, dtype)
        inputs = [block(rank, to, count, dtype) for to in range(RANKS)]
        dist.all_to_all([one, one, fresh(count, dtype)], inputs, group=group)

    yield "all_to_all to one tensor twice", exchange_twice, None

    def gather_at_root_twice(group):
        one = fresh(count, dtype)
        outputs = [one, one, fresh(count, dtype)]
        dist.gather(block(rank, 0, count, dtype), outputs, group_dst=ROOT, group=group)

    yield "gather to one tensor twice", gather_at_root_twice, ROOT

    for name, call in {
        "all_reduce": lambda group: dist.all_reduce(windows(count, dtype), group=group),
        "broadcast": lambda group: dist.broadcast(
            windows(count, dtype), group_src=ROOT, group=group
        ),
        "all_gather_into_tensor": lambda group: dist.all_gather_into_tensor(
            windows(count, dtype), windows(count, dtype)[:, 0], group=group
        ),
        "reduce_scatter_tensor": lambda group: dist.reduce_scatter_tensor(
            windows(count, dtype), torch.zeros(9 * count, dtype=dtype), group=group
        ),
    }.items():
        yield f"{name} to windows into one row", call, None
