"""Groups whose ranks change: torch.distributed._reconfigure, which torch has from 2.14 on."""

import datetime
import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType
from torch.distributed.distributed_c10d import _get_default_store

import atp.torch

from .test_get_error import get_error
from .ways import WAYS, options_of

pytestmark = pytest.mark.needs_torch("2.14")

RECONFIGURABLE = {"enable_reconfigure": True}


def handles_of(rank, size):
    """Those of all ranks, by rank, exchanged through the store."""
    store = _get_default_store()
    store.set(f"handle/{rank}", dist._get_reconfigure_handle())
    return [store.get(f"handle/{rank}").decode() for rank in range(size)]


def total():
    """The all-reduce of 1 from every rank."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    return tensor[-1].item()


def run(ranks, size, body, *, way="memory", **options):
    """Runs body(rank, handles of all ranks) in a group that has no ranks yet."""

    def with_handles(rank):
        return body(rank, handles_of(rank, size))

    return ranks.outcomes(
        size,
        with_handles,
        memory=way == "memory",
        pg_options=options_of(way),
        init=RECONFIGURABLE,
        **options,
    )


@pytest.mark.parametrize("way", WAYS)
def test_the_others_go_on_without_a_killed_rank(ranks, way):
    def body(rank, handles):
        assert get_error() == ErrorType.SUCCESS
        dist._reconfigure(1, handles).wait()
        sums = [(dist.get_world_size(), dist.get_rank(), total())]
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            for _ in range(100):
                total()
        assert get_error() in (ErrorType.COMM_ERROR, ErrorType.REMOTE_ERROR)
        dist._reconfigure(2, [handles[0], handles[2]]).wait()
        assert get_error() == ErrorType.SUCCESS
        sums.append((dist.get_world_size(), dist.get_rank(), total()))
        assert atp.torch.stats()["algorithm"] in ("innetwork", "ring")
        return sums

    for outcome in run(ranks, 3, body, way=way, waited_for=[0, 2]):
        assert outcome.error is None, outcome.trace
        assert outcome.value == [(3, outcome.rank, 3.0), (2, outcome.rank // 2, 2.0)]


def test_a_set_of_handles_gives_every_rank_a_number_of_its_own(ranks):
    def body(rank, handles):
        dist._reconfigure(1, set(handles)).wait()
        return dist.get_rank(), total()

    outcomes = run(ranks, 3, body)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    assert sorted(outcome.value for outcome in outcomes) == [(0, 3.0), (1, 3.0), (2, 3.0)]


def test_a_group_without_ranks_says_what_to_call(ranks):
    def body(rank, handles):
        with pytest.raises(dist.DistBackendError, match="no ranks yet.*_reconfigure"):
            total()
        with pytest.raises(dist.DistBackendError, match="no ranks yet"):
            atp.torch.stats()

    (outcome,) = run(ranks, 1, body)
    assert outcome.error is None, outcome.trace


def test_wrong_handles_and_used_uuids_are_refused(ranks):
    def body(rank, handles):
        with pytest.raises(ValueError, match="handle is not among the 1"):
            dist._reconfigure(1, ["another"])
        with pytest.raises(ValueError, match="given twice"):
            dist._reconfigure(1, [handles[0], handles[0]])
        dist._reconfigure(1, handles).wait()
        with pytest.raises(RuntimeError, match="uuid 1 was already used"):
            dist._reconfigure(1, handles)
        return total()

    (outcome,) = run(ranks, 1, body)
    assert outcome.error is None, outcome.trace
    assert outcome.value == 1.0


def test_after_a_reconfigure_that_a_rank_missed_another_one_works(ranks):
    def body(rank, handles):
        if rank == 0:
            with pytest.raises(dist.DistStoreError, match="rank 1 .* did not join within 0.5 s"):
                dist._reconfigure(1, handles, timeout=datetime.timedelta(seconds=0.5))
            with pytest.raises(dist.DistBackendError, match="last reconfigure failed"):
                total()
        dist._reconfigure(2, handles).wait()
        return total()

    for outcome in run(ranks, 2, body):
        assert outcome.error is None, outcome.trace
        assert outcome.value == 2.0
