"""Wrong use and failures: an error in bounded time that says what, where and which rank."""

import datetime
import logging
import math
import os
import signal
import time

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from atp.torch import _watch
from atp.torch._meeting import Meeting
from atp.torch._watch import Deadline

from .network import Network
from .ways import WAYS, options_of


def errors_of(outcomes) -> list[str]:
    assert all(outcome.error for outcome in outcomes), [o.value for o in outcomes]
    return [outcome.error for outcome in outcomes]


def test_ranks_that_disagree_about_the_size(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(1000 if rank != 1 else 1001))

    for error in errors_of(ranks.outcomes(3, body)):
        assert error.startswith("DistBackendError")
        assert "rank 1" in error and "a different operation" in error


def test_ranks_that_disagree_about_the_order(ranks):
    def body(rank):
        sizes = [500, 700] if rank == 0 else [700, 500]
        works = [dist.all_reduce(torch.ones(size), async_op=True) for size in sizes]
        for work in works:
            work.wait()

    for error in errors_of(ranks.outcomes(2, body)):
        assert "rank 0" in error and "rank 1" in error and "a different operation" in error


def test_the_other_ranks_name_a_killed_rank(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(100))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(100_000))

    outcomes = ranks.outcomes(3, body, waited_for=[0, 2], timeout_s=25)
    for error in errors_of(outcomes):
        assert "rank 1" in error


def test_the_other_ranks_name_a_frozen_rank(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(100))
        if rank == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(torch.ones(100_000))

    outcomes = ranks.outcomes(3, body, waited_for=[0, 1], timeout_s=25)
    for error in errors_of(outcomes):
        assert "rank 2" in error


def test_the_statistics_of_waiting_ranks_name_a_late_rank(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(100))
        assert atp.torch.stats()["waiting_for"] is None
        if rank == 1:
            time.sleep(2.5)
        work = dist.all_reduce(torch.ones(1000), async_op=True)
        waited = None
        while rank != 1 and not work.is_completed() and waited is None:
            time.sleep(0.05)
            waited = atp.torch.stats()["waiting_for"]
        work.wait()
        assert atp.torch.stats()["waiting_for"] is None
        dist.all_reduce(torch.ones(100))
        return waited, atp.torch.stats()["waited_s"]

    first, late, last = ranks.run(3, body)
    assert late == (None, {})
    for waited, in_all in (first, last):
        assert list(in_all) == [1] and 1.5 <= in_all[1] < 2.6
        assert waited["ranks"] == [1] and 1 <= waited["seconds"] < 2.5
        assert waited["operation"].startswith("all_reduce #1 (1,000 values)")


def test_a_rank_that_does_not_take_part_is_named_at_the_deadline(ranks):
    def body(rank):
        if rank == 1:
            signal.pause()  # alive, but busy elsewhere
        dist.all_reduce(torch.ones(100))

    outcomes = ranks.outcomes(3, body, waited_for=[0, 2], timeout_s=3)
    for error in errors_of(outcomes):
        assert "not ended within its timeout of 3 s: rank 1" in error


def test_an_operation_may_have_its_own_deadline(ranks):
    def body(rank):
        if rank == 1:
            signal.pause()
        options = dist.AllreduceOptions()
        options.timeout = datetime.timedelta(seconds=1)
        with pytest.raises(RuntimeError, match="rank 1"):
            dist.group.WORLD.allreduce([torch.ones(10)], options).wait()

    # The group's own deadline would come after the test's limit.
    outcomes = ranks.outcomes(2, body, waited_for=[0], timeout_s=600)
    assert outcomes[0].error is None, outcomes[0].trace


def test_an_error_reaches_backward_the_future_and_the_work(ranks):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(100, 100))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(RuntimeError, match="rank 1"):
            model(torch.ones(1, 100)).sum().backward()
        work = dist.all_reduce(torch.ones(3), async_op=True)
        with pytest.raises(RuntimeError, match="rank 1"):
            work.get_future().wait()
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            work.wait()
        assert work.is_completed() and not work.is_success()
        assert "rank 1" in str(work.exception())

    outcomes = ranks.outcomes(2, body, waited_for=[0])
    assert outcomes[0].error is None, outcomes[0].trace


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("fate", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "frozen"])
def test_ten_failed_groups_end_without_a_wait_for_each(ranks, fate, way):
    def body(rank):
        limit = datetime.timedelta(seconds=2 if fate == signal.SIGSTOP else 20)
        options = options_of(way)
        groups = [dist.new_group(timeout=limit, pg_options=options) for _ in range(9)]
        for group in groups:
            dist.all_reduce(torch.ones(100), group=group)
        if rank == 1:
            os.kill(os.getpid(), fate)
        works = [dist.all_reduce(torch.ones(100_000), group=g, async_op=True) for g in groups]
        for work in works:
            with pytest.raises(dist.DistBackendError):
                work.wait()
        begin = time.monotonic()
        for group in groups[::2]:
            group._get_backend(torch.device("cpu")).abort()
        dist.destroy_process_group()
        return time.monotonic() - begin

    memory = way == "memory"
    (outcome,) = ranks.outcomes(2, body, waited_for=[0], memory=memory, pg_options=options_of(way))
    assert outcome.error is None, outcome.trace
    assert outcome.value < 10, "as long as a wait of a second for each"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("call", ["all_reduce", "broadcast"])
@pytest.mark.parametrize(("end", "most_s"), [("destroy", 12), ("abort", 5)])
def test_a_group_ends_although_an_operation_waits_for_a_frozen_rank(ranks, end, most_s, call, way):
    """destroy_process_group() waits for what is in flight; abort() does not."""

    def start():
        if call == "all_reduce":
            return dist.all_reduce(torch.ones(100_000), async_op=True)
        return dist.broadcast(torch.ones(100_000), src=1, async_op=True)

    def body(rank):
        start().wait()
        if rank == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        work = start()
        begin = time.monotonic()
        if end == "abort":
            dist.group.WORLD._get_backend(torch.device("cpu")).abort()
        else:
            dist.destroy_process_group()
        seconds = time.monotonic() - begin
        with pytest.raises(dist.DistBackendError):
            work.wait()
        return seconds

    memory = way == "memory"
    (outcome,) = ranks.outcomes(
        2, body, waited_for=[0], timeout_s=6, memory=memory, pg_options=options_of(way)
    )
    assert outcome.error is None, outcome.trace
    assert outcome.value < most_s, "twice the time-out, or nearly once if it need not wait"


def test_a_rank_that_never_joins_is_named(ranks):
    outcomes = ranks.outcomes(4, lambda rank: None, started=[0, 1, 3], timeout_s=3)
    for error in errors_of(outcomes):
        assert "rank 2 of group" in error and "did not join within 3 s" in error


def lines_of_log():
    lines = []
    _watch._log.addHandler(handler := logging.Handler())
    handler.emit = lambda record: lines.append(record.getMessage())
    return lines


def test_one_rank_says_whom_the_others_wait_for(ranks):
    def body(rank):
        lines = lines_of_log()
        default_store = dist.distributed_c10d._get_default_store()
        meeting = Meeting(dist.PrefixStore("again", default_store), rank, 4, "again", [])
        if rank % 2 == 0:
            time.sleep(2.5)
        meeting.agree_on_job(Deadline(datetime.timedelta(seconds=60)), [])
        return lines

    of_0, of_1, of_2, of_3 = ranks.run(4, body)
    said = "waiting for ranks 0, 2 to join group 'again', for at most 60 s"
    assert (of_0, of_2) == ([], []) and of_1 + of_3 == [said]


def test_it_says_again_and_again_who_is_still_missing(ranks, monkeypatch):
    monkeypatch.setattr(_watch, "_TELLS_AGAIN_AFTER_S", 0.5)

    def body(rank):
        lines = lines_of_log()
        default_store = dist.distributed_c10d._get_default_store()
        meeting = Meeting(dist.PrefixStore("again", default_store), rank, 3, "again", [])
        time.sleep([0, 1.2, 4][rank])
        meeting.agree_on_job(Deadline(datetime.timedelta(seconds=60)), [])
        return lines

    (first, *more), *_ = ranks.run(3, body)
    assert "ranks 1, 2 to join" in first
    assert more and all("waiting for rank 2 to join" in line for line in more), more


def test_one_rank_says_whom_the_others_wait_for_in_later_steps(ranks):
    def body(rank):
        lines = lines_of_log()
        default_store = dist.distributed_c10d._get_default_store()
        meeting = Meeting(dist.PrefixStore("again", default_store), rank, 3, "again", [])
        deadline = Deadline(datetime.timedelta(seconds=60))
        meeting.agree_on_job(deadline, [])
        if rank == 1:
            time.sleep(2.5)
        meeting.exchange("path/ring", "-", deadline)
        return lines

    of_0, of_1, of_2 = ranks.run(3, body)
    said = "waiting for rank 1 of group 'again' to report its part (path/ring), for at most 60 s"
    assert of_1 == [] and of_0 + of_2 == [said]


def test_a_rank_that_comes_too_late_learns_that_the_others_gave_up(ranks):
    def body(rank):
        default_store = dist.distributed_c10d._get_default_store()
        timeout = datetime.timedelta(seconds=1 if rank == 1 else 4)
        if rank == 1:
            default_store.wait(["gave up/0", "gave up/2"], datetime.timedelta(seconds=60))
        meeting = Meeting(dist.PrefixStore("again", default_store), rank, 3, "again", [])
        with pytest.raises(dist.DistStoreError, match="did not join within . s") as error:
            meeting.agree_on_job(Deadline(timeout), [])
        default_store.set(f"gave up/{rank}", "")
        return str(error.value)

    first, late, third = ranks.run(3, body)
    for error in first, third:
        assert "rank 1 of group" in error and "given up" not in error
    assert "had given up before rank 1 came: start all ranks within the time-out" in late


@pytest.mark.parametrize("late", [None, 0, 1])
def test_all_ranks_that_disagree_about_their_number_get_an_error(ranks, late):
    def body(rank):
        default_store = dist.distributed_c10d._get_default_store()
        store = dist.PrefixStore("again", default_store)
        a_minute = datetime.timedelta(seconds=60)
        if rank == late:
            default_store.wait([f"gave up/{other}" for other in {0, 1, 2} - {late}], a_minute)
        # The third rank expects a different size of the group.
        meeting = Meeting(store, rank, 4 if rank == 2 else 3, "again", [])
        begin = time.monotonic()
        with pytest.raises(ValueError, match="has a group size of . ranks, and another rank has ."):
            meeting.agree_on_job(Deadline(a_minute), [])
        seconds = time.monotonic() - begin
        default_store.set(f"gave up/{rank}", "")
        return seconds, Meeting(store, rank, 3, "again", []).agree_on_job(Deadline(a_minute), [])

    seconds, jobs = zip(*ranks.run(3, body), strict=True)
    assert max(seconds) < 30
    assert len(set(jobs)) == 1, "the ranks do not meet once they agree"


def test_a_member_that_never_makes_its_subgroup_is_named(ranks):
    def body(rank):
        if rank == 2:
            signal.pause()
        dist.new_group([0, 2, 3], timeout=datetime.timedelta(seconds=2))

    outcomes = ranks.outcomes(4, body, waited_for=[0, 3])
    for error in errors_of(outcomes):
        assert "rank 2 of group" in error


def test_two_workers_with_one_rank(ranks):
    outcomes = ranks.outcomes(3, lambda rank: None, started=[0, 1, 1], timeout_s=4)
    taken = [error for error in errors_of(outcomes) if "is taken by" in error]
    assert len(taken) == 1 and "rank 1" in taken[0] and "process" in taken[0]


def test_no_route_says_what_to_do(ranks):
    for error in errors_of(ranks.outcomes(2, lambda rank: None, route="")):
        assert "atp run -n N" in error and "ATP_ROUTE=" in error


@pytest.mark.parametrize("size", [1, 2])
def test_an_invalid_route(ranks, size):
    for error in errors_of(ranks.outcomes(size, lambda rank: None, route="nonsense")):
        assert error.startswith('ValueError: ATP_ROUTE="nonsense": ')
    options = atp.torch.Options(route="nonsense")
    for error in errors_of(ranks.outcomes(size, lambda rank: None, pg_options=options)):
        assert error.startswith('ValueError: Options.route="nonsense": ')


def test_no_server_at_its_address(ranks):
    outcomes = ranks.outcomes(2, lambda rank: None, route="127.0.0.1:9", timeout_s=4)
    for error in errors_of(outcomes):
        assert "127.0.0.1:9" in error


def test_with_the_server_killed_the_error_names_it(ranks):
    with Network() as network:

        def body(rank):
            dist.all_reduce(torch.ones(1000))
            if rank == 0:
                os.kill(network.server.pid, signal.SIGKILL)
            time.sleep(0.2)
            for _ in range(1000):
                dist.all_reduce(torch.ones(1000))

        outcomes = ranks.outcomes(2, body, route=network.route, timeout_s=25)
    for error in errors_of(outcomes):
        assert network.server.endpoint in error


def test_one_dead_server_of_several_ends_operations_that_wait_for_a_rank_at_another(ranks):
    # Rank 1 is alive but takes part in nothing until rank 0 has got the error.
    with Network() as network, Network() as other:

        def body(rank):
            store = dist.distributed_c10d._get_default_store()
            dist.all_reduce(torch.ones(1000))
            if rank == 1:
                os.kill(other.server.pid, signal.SIGKILL)
                store.wait(["learned"], datetime.timedelta(seconds=60))
                return None
            with pytest.raises(RuntimeError) as error:
                dist.all_reduce(torch.ones(300_000))
            store.set("learned", "")
            return str(error.value)

        route = f"{network.route};{other.server.endpoint}"
        learned, _ = ranks.run(2, body, route=route, timeout_s=600, limit_s=90)
    assert other.server.endpoint in learned


def test_the_group_survives_not_a_number_in_a_gradient(ranks):
    def body(rank):
        model = DistributedDataParallel(torch.nn.Linear(10, 1))
        inputs = torch.ones(2, 10) * (math.nan if rank == 0 else 1)
        model(inputs).sum().backward()
        return bool(torch.isnan(model.module.weight.grad).all())

    assert ranks.run(2, body) == [True, True]
