"""The calls of the torch backend, and what the failing rank does instead of them."""

import os
import signal
import threading
import time

import torch
import torch.distributed as dist

RANKS = 3
VICTIM = 1
OTHERS = (0, 2)
# More than is sent before the receiver asks for it.
VALUES = 40_000


def values(kind=torch.float32):
    return torch.ones(VALUES, dtype=kind)


def integers():
    """A type that neither the network nor the ring sums."""
    return values(torch.int64)


def blocks():
    return [values() for _ in range(RANKS)]


def whole():
    return torch.ones(RANKS * VALUES)


def at_root(group, make):
    """An argument that only rank 0, the root of the call, passes."""
    return make() if dist.get_rank(group) == 0 else None


def objects():
    return [b"1" * 4 * VALUES for _ in range(RANKS)]


def sparse_sum(group):
    dist.all_reduce(torch.sparse_coo_tensor([[0]], [1.0], (4,)), group=group)


def uneven_all_to_all(group):
    """Every rank sends one block to rank 0, two to rank 1 and three to rank 2."""
    lengths = [VALUES * (peer + 1) for peer in range(RANKS)]
    own = VALUES * (dist.get_rank(group) + 1)
    received = torch.empty(RANKS * own)
    dist.all_to_all_single(received, torch.ones(sum(lengths)), [own] * RANKS, lengths, group=group)


def exchange(group):
    """Sends to every other rank and receives from it, in one batch."""
    peers = [rank for rank in range(RANKS) if rank != dist.get_rank(group)]
    transfers = [dist.P2POp(dist.isend, values(), peer, group) for peer in peers]
    transfers += [dist.P2POp(dist.irecv, values(), peer, group) for peer in peers]
    for work in dist.batch_isend_irecv(transfers):
        work.wait()


def two_sums(group):
    with dist._coalescing_manager(group):
        dist.all_reduce(values(), group=group)
        dist.all_reduce(values(), group=group)


def monitored_barrier(group):
    group._get_backend(torch.device("cpu")).monitored_barrier()


COLLECTIVES = {
    "all_reduce": lambda group: dist.all_reduce(values(), group=group),
    "all_reduce, MAX": lambda group: dist.all_reduce(values(), dist.ReduceOp.MAX, group=group),
    "all_reduce, coalesced": two_sums,
    "all_reduce, int64": lambda group: dist.all_reduce(integers(), group=group),
    "all_reduce, sparse": sparse_sum,
    "reduce": lambda group: dist.reduce(values(), 0, group=group),
    "reduce, int64": lambda group: dist.reduce(integers(), 0, group=group),
    "reduce_scatter": lambda group: dist.reduce_scatter(values(), blocks(), group=group),
    "reduce_scatter_tensor": lambda g: dist.reduce_scatter_tensor(values(), whole(), group=g),
    "all_gather": lambda group: dist.all_gather(blocks(), values(), group=group),
    "all_gather_into_tensor": lambda g: dist.all_gather_into_tensor(whole(), values(), group=g),
    "all_gather_object": lambda g: dist.all_gather_object([None] * RANKS, objects()[0], group=g),
    "broadcast": lambda group: dist.broadcast(values(), 0, group=group),
    "broadcast_object_list": lambda g: dist.broadcast_object_list(objects(), 0, group=g),
    "gather": lambda group: dist.gather(values(), at_root(group, blocks), 0, group=group),
    "scatter": lambda group: dist.scatter(values(), at_root(group, blocks), 0, group=group),
    "all_to_all": lambda group: dist.all_to_all(blocks(), blocks(), group=group),
    "all_to_all_single, uneven": uneven_all_to_all,
    "barrier": lambda group: dist.barrier(group=group),
    "monitored_barrier": monitored_barrier,
}
# Both other ranks call them, and the victim would have to answer.
TRANSFERS = {
    "send": lambda group: dist.send(values(), VICTIM, group=group),
    "recv": lambda group: dist.recv(values(), VICTIM, group=group),
    "recv from any rank": lambda group: dist.recv(values(), group=group),
    "batch_isend_irecv": exchange,
}
CALLS = COLLECTIVES | TRANSFERS


def told(call, group):
    """Its error and the seconds until then; some calls end before a missing rank matters."""
    for _ in range(3):
        begin = time.monotonic()
        try:
            call(group)
        except dist.DistBackendError as error:
            return str(error), time.monotonic() - begin
    return "no error", 0.0


def in_threads(functions):
    results = [None] * len(functions)

    def run(i):
        results[i] = functions[i]()

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(functions))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def be_killed(groups):
    os.kill(os.getpid(), signal.SIGKILL)


def stand_still(groups):
    os.kill(os.getpid(), signal.SIGSTOP)


def stay_away(groups):
    signal.pause()


def be_elsewhere(groups):
    """In a collective's group, calls the next but one in the table; a barrier in a transfer's."""
    names = list(COLLECTIVES)
    others = dict(zip(names, [*names[2:], *names[:2]], strict=True))
    in_threads([lambda n=name: told(CALLS[others.get(n, "barrier")], groups[n]) for name in groups])
    signal.pause()


# What docs/use/torch.md calls them.
FATES = {
    "is killed": be_killed,
    "is frozen": stand_still,
    "is missing": stay_away,
    "is in another call": be_elsewhere,
}
