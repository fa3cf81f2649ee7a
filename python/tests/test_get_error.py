"""get_error() of the backend: how a group has failed, by torch's ErrorType."""

import datetime
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType
from torch.distributed.distributed_c10d import _get_default_store

from .ways import WAYS, options_of

on_all = pytest.mark.parametrize("way", WAYS)
# Around a ring, sums take the connections between ranks as well.
on_all_with_two_paths = pytest.mark.parametrize("way", [way for way in WAYS if way != "ring"])
# An all-reduce of float32 takes the group's own path, a barrier its connections between ranks.
OWN, PEERS = "own path", "peers"
on_both_paths = pytest.mark.parametrize("path", [OWN, PEERS])
SHORT_S = 1


def get_error() -> ErrorType:
    return dist.group.WORLD._get_backend(torch.device("cpu")).get_error()


def meet(path, timeout_s=20):
    options = dist.AllreduceOptions() if path == OWN else dist.BarrierOptions()
    options.timeout = datetime.timedelta(seconds=timeout_s)
    if path == OWN:
        dist.group.WORLD.allreduce([torch.ones(1000)], options).wait()
    else:
        dist.group.WORLD.barrier(options).wait()


def fails(path, timeout_s=20) -> ErrorType:
    """What get_error() returns once an operation has failed: the first one may end well, if the
    other rank had done its part before it left."""
    with pytest.raises(dist.DistBackendError):
        for _ in range(3):
            meet(path, timeout_s)
    return get_error()


def run(ranks, size, body, way, **options):
    """The values of the ranks that are waited for."""
    outcomes = ranks.outcomes(
        size, body, memory=way == "memory", pg_options=options_of(way), **options
    )
    for outcome in outcomes:
        assert outcome.error is None, outcome.trace
    return [outcome.value for outcome in outcomes]


@on_all
def test_a_healthy_group_has_no_error_even_after_wrong_use(ranks, way):
    def body(rank):
        found = [get_error()]
        for path in (OWN, PEERS):
            meet(path)
            found.append(get_error())
        with pytest.raises(TypeError):
            dist.all_reduce(torch.ones(4, dtype=torch.bool), op=dist.ReduceOp.AVG)
        return [*found, get_error()]

    assert run(ranks, 2, body, way) == [[ErrorType.SUCCESS] * 4] * 2


@on_all
@on_both_paths
@pytest.mark.parametrize(
    ("what_another_does", "timeout_s", "error"),
    [(signal.SIGSTOP, SHORT_S, ErrorType.TIMEOUT), (signal.SIGKILL, 20, ErrorType.COMM_ERROR)],
    ids=["another is frozen, so time runs out", "another is killed"],
)
def test_a_rank_says_what_it_has_found(ranks, way, path, what_another_does, timeout_s, error):
    def body(rank):
        meet(path)
        if rank == 1:
            os.kill(os.getpid(), what_another_does)
        return fails(path, timeout_s)

    assert run(ranks, 2, body, way, waited_for=[0]) == [error]


@on_all
@on_both_paths
def test_a_rank_to_which_another_one_reports_its_time_out_has_a_remote_error(ranks, way, path):
    def body(rank):
        meet(path)
        store = _get_default_store()
        if rank == 0:
            found = fails(path, timeout_s=SHORT_S)
            store.set("late", "")
            store.wait(["told"])
            return found
        store.wait(["late"])
        found = fails(path)
        store.set("told", "")
        return found

    assert run(ranks, 2, body, way) == [ErrorType.TIMEOUT, ErrorType.REMOTE_ERROR]


@on_all
def test_the_first_error_stays(ranks, way):
    """The connections between ranks fail first, the group's own path later and differently."""

    def body(rank):
        meet(PEERS)
        meet(OWN)
        store = _get_default_store()
        if rank == 0:
            found = [fails(PEERS, timeout_s=SHORT_S)]
            store.set("late", "")
            store.wait(["told"])
        else:
            store.wait(["late"])
            found = [fails(PEERS), fails(OWN, timeout_s=SHORT_S)]
            store.set("told", "")
        return [*found, get_error()]

    late, told = run(ranks, 2, body, way)
    assert late == [ErrorType.TIMEOUT] * 2
    assert told == [ErrorType.REMOTE_ERROR] * 3


@on_all_with_two_paths
@pytest.mark.parametrize(
    ("failing", "other"), [(PEERS, OWN), (OWN, PEERS)],
    ids=["the peers fail", "its own path fails"],
)  # fmt: skip
def test_after_a_failure_on_one_path_the_other_starts_nothing(ranks, way, failing, other):
    def body(rank):
        meet(PEERS)
        meet(OWN)
        store = _get_default_store()
        if rank == 1:
            store.wait(["refused"])
            return True
        fails(failing, timeout_s=SHORT_S)
        begin = time.monotonic()
        with pytest.raises(dist.DistBackendError, match="the group has failed: .*rank 1"):
            meet(other, timeout_s=20)
        store.set("refused", "")
        return time.monotonic() - begin < 5

    assert run(ranks, 2, body, way) == [True, True]


@on_all
@on_both_paths
def test_a_ranks_own_abort_is_no_error_but_the_others_find_one(ranks, way, path):
    def body(rank):
        meet(path)
        store = _get_default_store()
        if rank == 0:
            store.wait(["aborted"])
            return fails(path)
        if path == OWN:
            work = dist.all_reduce(torch.ones(1000), async_op=True)
        else:
            work = dist.barrier(async_op=True)
        time.sleep(0.1)
        dist.group.WORLD.abort()
        with pytest.raises(dist.DistBackendError):
            work.wait()
        found = get_error()
        store.set("aborted", "")
        return found

    other, aborting = run(ranks, 2, body, way)
    assert aborting == ErrorType.SUCCESS
    assert other in (ErrorType.COMM_ERROR, ErrorType.REMOTE_ERROR)


@on_all
@on_both_paths
def test_an_abort_keeps_the_error_that_came_before(ranks, way, path):
    def body(rank):
        meet(path)
        if rank == 1:
            signal.pause()
        found = [fails(path, timeout_s=SHORT_S)]
        dist.group.WORLD.abort()
        return [*found, get_error()]

    assert run(ranks, 2, body, way, waited_for=[0]) == [[ErrorType.TIMEOUT] * 2]
