"""Ranks that die or freeze while a group is being made: the others do not wait for them."""

import dataclasses
import datetime
import os
import signal
import time
import types

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
# A rank that is gone is named at once: within half a second, on a busy machine within this time.
SOON_S = 5
# By others than its host's that takes longer: until the server misses it, or the ranks do.
LEASE_S = 5
SILENCE_S = 10

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


def told(ranks, way, stage, end, *, make=new_group, timeout=LONG, remote=False, slow=None):
    """(error, seconds) of each other rank, if the victim's process meets this end at that stage."""
    options = way_options(way)

    def body(rank):
        if remote:
            _watch._kernel = lambda: f"that of rank {rank}"
        if rank == slow:
            _watch._LOOKS_EVERY_S = 5.0
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
    by_server = way in ("innetwork", "auto") and stage == "when all are connected"
    for _, seconds in told(ranks, way, {**STAGES, **STAGES_OF_AUTO}[stage], signal.SIGKILL):
        assert seconds < SOON_S + LEASE_S * by_server


@pytest.mark.parametrize("slow", OTHERS)
def test_a_rank_that_is_slow_to_look_names_it_too(ranks, slow):
    # The other one hears of the loss first and hangs up, and it is still there.
    for text, _ in told(ranks, "memory", CONNECTS, signal.SIGKILL, slow=slow):
        assert f"rank {VICTIM} of" in text and "was lost" in text


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
        assert "no word from it for 10 s" in text and seconds < SILENCE_S + SOON_S


@pytest.mark.parametrize("way", ["memory", "ring", "innetwork", "auto"])
@pytest.mark.parametrize("stage", [COMES, CONNECTS], ids=["comes", "connects"])
def test_one_time_out_bounds_all_steps_together(ranks, way, stage):
    """A frozen rank uses up the whole of it in the first step; auto has four."""
    limit = datetime.timedelta(seconds=6)
    for text, seconds in told(ranks, way, stage, signal.SIGSTOP, timeout=limit):
        assert seconds < 8, text  # four steps would be 24


def test_all_name_at_once_a_rank_that_cannot_make_the_group(ranks):
    """It knows at once that it has no route, and does not keep that to itself."""

    def body(rank):
        _backend.this_host = lambda: f"host {rank}"
        if rank == VICTIM:
            os.environ["ATP_ROUTE"] = ""
        begin = time.monotonic()
        options = atp.torch.Options(algorithm="innetwork", host_memory=True, join_timeout=LONG)
        with pytest.raises(RuntimeError) as raised:
            dist.new_group(timeout=LONG, pg_options=options)
        return str(raised.value), time.monotonic() - begin

    for rank, (text, seconds) in enumerate(ranks.run(RANKS, body, timeout_s=60)):
        assert "atp has no route to the server" in text and seconds < SOON_S
        assert rank == VICTIM or f"rank {VICTIM} of group" in text and "cannot make" in text


def test_all_name_at_once_a_rank_that_is_interrupted(ranks):
    """By Ctrl-C, in a program that goes on without the group."""

    def body(rank):
        def interrupt(*_, **__):
            raise KeyboardInterrupt

        if rank == VICTIM:
            _meeting.Meeting._check = interrupt
        begin = time.monotonic()
        with pytest.raises((RuntimeError, KeyboardInterrupt)) as raised:
            dist.new_group(timeout=LONG)
        if rank == VICTIM:
            time.sleep(5)  # its process has not ended
        return str(raised.value), time.monotonic() - begin

    for rank, (text, seconds) in enumerate(ranks.run(RANKS, body, timeout_s=60)):
        if rank != VICTIM:
            assert f"rank {VICTIM} of group" in text and "KeyboardInterrupt" in text
            assert seconds < SOON_S, text


def serve_store(rank):
    """A new default group's store, which rank 0's process serves."""
    shared = dist.PrefixStore("port", _get_default_store())
    if rank == 0:
        store = dist.TCPStore("127.0.0.1", 0, RANKS, is_master=True, wait_for_workers=False)
        shared.set("port", str(store.port))
        return store
    return dist.TCPStore("127.0.0.1", int(shared.get("port")), RANKS, wait_for_workers=False)


@pytest.mark.parametrize("stage", STAGES)
def test_a_rank_that_dies_with_the_store_it_serves_is_named(ranks, stage):
    def body(rank):
        store = serve_store(rank)
        dist.destroy_process_group()
        if rank == 0:
            # The others have come by then, and have read who it is.
            end = lambda *_, **__: (time.sleep(2), os.kill(os.getpid(), signal.SIGKILL))  # noqa: E731
            setattr(*STAGES[stage], end)
        begin = time.monotonic()
        with pytest.raises(RuntimeError) as raised:
            dist.init_process_group("atp", store=store, rank=rank, world_size=RANKS, timeout=LONG)
            dist.all_reduce(torch.ones(10))
        return str(raised.value), time.monotonic() - begin

    for outcome in ranks.outcomes(RANKS, body, waited_for=[1, 2], timeout_s=60):
        assert outcome.error is None, outcome.trace
        text, seconds = outcome.value
        print(f"{seconds:5.2f} s  {text}")
        # It ends two seconds late; once all are connected, only the server misses it.
        assert "rank 0" in text and seconds < 2 + LEASE_S + SOON_S, text


def test_a_group_that_is_made_does_not_wait_for_a_frozen_store(ranks):
    def body(rank):
        store = serve_store(rank)
        dist.destroy_process_group()
        if rank == 0:
            stop = lambda *_, **__: os.kill(os.getpid(), signal.SIGSTOP)  # noqa: E731
            setattr(*STAGES["when all are connected"], stop)
        else:
            made = _backend._maker_of_splits
            _backend._maker_of_splits = lambda *a: (time.sleep(3), made(*a))[1]
        begin = time.monotonic()
        _backend._create_of_fixed_ranks(
            types.SimpleNamespace(
                store=store, group_rank=rank, group_size=RANKS, group_id="0",
                global_ranks_in_group=[], timeout=LONG,
            ),
            atp.torch.Options(algorithm="ring"),
        )  # fmt: skip
        return time.monotonic() - begin

    for outcome in ranks.outcomes(RANKS, body, waited_for=[1, 2], timeout_s=60):
        assert outcome.error is None, outcome.trace
        assert outcome.value < 6 + SOON_S  # it waits three seconds here, and three for the store


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
