"""Ranks that die or freeze while a group is being made: the others do not wait for them."""

import dataclasses
import datetime
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _get_default_store

import atp.torch
from atp.torch import _backend, _choice, _meeting, _watch

from .ways import options_of

RANKS = 3
VICTIM = 1
OTHERS = [rank for rank in range(RANKS) if rank != VICTIM]
LONG = datetime.timedelta(seconds=200)
# Far less than the time-out, and far more than a busy machine needs.
SOON_S = 60

# What the victim does not live to do.
COMES = (_meeting.Meeting, "_put")
CONNECTS = (_backend, "_make")
STAGES = {
    "when it has come, and the others wait for it": COMES,
    "when all have come, and it should compare their options": (_meeting.Meeting, "_check"),
    "when all have agreed, and it should connect": CONNECTS,
    "when all are connected": (_backend, "_maker_of_splits"),
}
STAGES_OF_AUTO = {
    "when it should say whether it could connect": (_meeting.Meeting, "exchange"),
    "when all have said that, and it should measure the ways": (_choice, "_probe"),
}
ROWS = [(way, stage) for way in ("memory", "ring", "innetwork", "auto") for stage in STAGES]
ROWS += [("auto", stage) for stage in STAGES_OF_AUTO]


def way_options(way):
    if way == "auto":
        return atp.torch.Options(algorithm="auto", host_memory=False, join_timeout=LONG)
    return dataclasses.replace(options_of(way), join_timeout=LONG)


def new_group(rank, options, timeout):
    dist.new_group(timeout=timeout, pg_options=options)


def split_group(rank, options, timeout):
    torch.accelerator.is_available = lambda: True
    torch.accelerator.current_accelerator = lambda: torch.device("cpu")
    dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
    dist.split_group(split_ranks=[list(range(RANKS))], timeout=timeout)


def init_process_group(rank, options, timeout):
    store = dist.PrefixStore("again", _get_default_store())
    dist.destroy_process_group()
    dist.init_process_group(
        "atp", store=store, rank=rank, world_size=RANKS, timeout=timeout, pg_options=options
    )


def reconfigure(rank, options, timeout):
    store = _get_default_store()
    store.set(f"handle/{rank}", dist._get_reconfigure_handle())
    handles = [store.get(f"handle/{each}").decode() for each in range(RANKS)]
    dist._reconfigure(1, handles, timeout=timeout)


def told(ranks, way, stage, end, *, make=new_group, timeout=LONG, remote=False):
    """(error, seconds) of each other rank, if the victim's process meets this end at that stage."""
    options = way_options(way)

    def body(rank):
        if remote:
            _watch._kernel = lambda: f"that of rank {rank}"
        if make is not reconfigure:
            dist.barrier()
        if rank == VICTIM:
            setattr(*stage, lambda *_, **__: os.kill(os.getpid(), end))
        begin = time.monotonic()
        with pytest.raises(RuntimeError) as raised:
            make(rank, options, timeout)
            dist.all_reduce(torch.ones(10))
        return str(raised.value), time.monotonic() - begin

    outcomes = ranks.outcomes(
        RANKS,
        body,
        waited_for=OTHERS,
        memory=way == "memory",
        pg_options=options,
        timeout_s=LONG.total_seconds(),
        init={"enable_reconfigure": True} if make is reconfigure else {},
    )
    for outcome in outcomes:
        assert outcome.error is None, outcome.trace
        print(f"{outcome.value[1]:5.2f} s  {outcome.value[0]}")
        assert f"rank {VICTIM}" in outcome.value[0]
    return [outcome.value for outcome in outcomes]


@pytest.mark.parametrize(("way", "stage"), ROWS)
def test_the_others_name_at_once_a_rank_that_was_killed(ranks, way, stage):
    for _, seconds in told(ranks, way, {**STAGES, **STAGES_OF_AUTO}[stage], signal.SIGKILL):
        assert seconds < SOON_S


@pytest.mark.parametrize(
    "make",
    [
        init_process_group,
        split_group,
        pytest.param(reconfigure, marks=pytest.mark.needs_torch("2.14")),
    ],
)
@pytest.mark.parametrize("stage", [COMES, CONNECTS], ids=["comes", "connects"])
def test_every_call_that_makes_a_group_does_so(ranks, make, stage):
    for text, seconds in told(ranks, "memory", stage, signal.SIGKILL, make=make):
        assert "its process has ended" in text and seconds < SOON_S


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
@pytest.mark.parametrize("stage", [COMES, CONNECTS], ids=["comes", "connects"])
def test_a_rank_of_another_host_is_missed_after_ten_seconds(ranks, end, stage):
    for text, seconds in told(ranks, "innetwork", stage, end, remote=True):
        assert "no word from it for 10 s" in text and seconds < SOON_S


@pytest.mark.parametrize("way", ["memory", "ring", "innetwork", "auto"])
@pytest.mark.parametrize("stage", [COMES, CONNECTS], ids=["comes", "connects"])
def test_one_time_out_bounds_all_steps_together(ranks, way, stage):
    """A frozen rank uses up the whole of it in the first step; auto has four."""
    limit = datetime.timedelta(seconds=6)
    for text, seconds in told(ranks, way, stage, signal.SIGSTOP, timeout=limit):
        assert seconds < 18, text  # four steps would be 24


def test_a_rank_that_is_late_is_not_taken_for_lost(ranks):
    def body(rank):
        _watch._kernel = lambda: f"that of rank {rank}"
        time.sleep(13 if rank == VICTIM else 0)
        dist.all_reduce(tensor := torch.ones(10), group=dist.new_group())
        return tensor[0].item()

    assert ranks.run(RANKS, body, timeout_s=60) == [RANKS] * RANKS


def test_the_others_can_make_a_group_without_the_lost_rank(ranks):
    def body(rank):
        if rank == VICTIM:
            setattr(*CONNECTS, lambda *_, **__: os.kill(os.getpid(), signal.SIGKILL))
        with pytest.raises(RuntimeError, match=f"rank {VICTIM}"):
            dist.new_group(timeout=LONG)
        store = dist.PrefixStore("others", _get_default_store())
        dist.destroy_process_group()
        number = OTHERS.index(rank)
        dist.init_process_group("atp", store=store, rank=number, world_size=len(OTHERS))
        dist.all_reduce(tensor := torch.ones(10))
        return tensor[0].item()

    for outcome in ranks.outcomes(RANKS, body, waited_for=OTHERS, memory=True):
        assert outcome.value == len(OTHERS), outcome.trace
