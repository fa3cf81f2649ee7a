"""Groups: each is a separate job; they exist at the same time, end, and are made again."""

import datetime
import gc
import json
import multiprocessing
import os
import pathlib
import socket
import subprocess
import sys
import time

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import atp.torch

from .network import PROGRAM
from .waiting import thread_count, wait_until
from .ways import WAYS, options_of

AGAIN = pathlib.Path(__file__).resolve().with_name("again.py")
PAIRS = [(0, 0), (0, 1), (1, 0), (1, 1)]  # of a mesh (2, 2), by rank


def total(group=None, value=1.0, size=1000) -> float:
    tensor = torch.full((size,), value)
    dist.all_reduce(tensor, group=group)
    assert torch.all(tensor == tensor[0])
    return tensor[0].item()


def test_two_groups_work_at_the_same_time(ranks):
    def body(rank):
        everyone = dist.new_group()
        halves = [dist.new_group([0, 1]), dist.new_group([2, 3])]
        mine = halves[rank // 2]
        tensors = [torch.full((5000,), float(rank)) for _ in range(9)]
        groups = [None, everyone, mine] * 3
        works = [
            dist.all_reduce(tensor, group=group, async_op=True)
            for tensor, group in zip(tensors, groups, strict=True)
        ]
        for work in works:
            work.wait()
        assert atp.torch.stats(mine)["innetwork"]["all_reduce"]["float32"]["calls"] == 3
        return [tensor[0].item() for tensor in tensors]

    results = ranks.run(4, body)
    assert results == [[6.0, 6.0, half] * 3 for half in (1.0, 1.0, 5.0, 5.0)]


def test_the_ranks_of_a_group_need_not_have_the_same_policy_of_congestion(ranks):
    def body(rank):
        policy = ("aimd", "none", "paper")[rank]
        options = atp.torch.Options(algorithm="innetwork", host_memory=False, congestion=policy)
        return total(dist.new_group(pg_options=options))

    assert ranks.run(3, body) == [3.0] * 3


def test_a_group_can_be_destroyed_and_made_again(ranks):
    def body(rank):
        sums = []
        for value in (1.0, 2.0, 3.0):
            group = dist.new_group([0, 1])
            if rank < 2:
                sums.append(total(group, value))
                dist.destroy_process_group(group)
            sums.append(total(None, value))
        return sums

    results = ranks.run(3, body)
    assert results == [[2.0, 3.0, 4.0, 6.0, 6.0, 9.0]] * 2 + [[3.0, 6.0, 9.0]]


def test_the_default_group_can_be_made_again_in_the_same_store(ranks, tmp_path):
    def body(rank):
        sums = [total()]
        dist.destroy_process_group()
        store = dist.FileStore(str(tmp_path / "own"), 2)
        for value in (2.0, 3.0):
            dist.init_process_group("atp", store=store, rank=rank, world_size=2)
            sums.append(total(None, value))
            dist.destroy_process_group()
        return sums

    assert ranks.run(2, body) == [[2.0, 4.0, 6.0]] * 2


@pytest.mark.parametrize("switch", [[], ["--switch"]], ids=["memory", "network"])
@pytest.mark.parametrize("size", [3, 4])
def test_the_default_group_can_be_made_forty_times_under_atp_run(size, switch):
    """Rank 0 serves the store, and the other ranks are often faster."""
    done = subprocess.run(
        [PROGRAM, "run", "-n", str(size), *switch, "--", sys.executable, AGAIN, "40"],
        env={**os.environ, "PYTHONPATH": str(AGAIN.parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    ended = [line for line in done.stdout.splitlines() if line.endswith("ends")]
    assert len(ended) == size, done.stdout


def test_a_programs_own_store_is_not_kept(ranks):
    """It may listen at the same port again."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    both = multiprocessing.get_context("fork").Barrier(2)

    def body(rank):
        dist.destroy_process_group()
        for _ in range(2):
            store = dist.TCPStore("127.0.0.1", port, 2, is_master=rank == 0)
            dist.init_process_group("atp", store=store, rank=rank, world_size=2)
            dist.destroy_process_group()
            del store
            gc.collect()
            both.wait(30)

    ranks.run(2, body)


def test_only_the_first_default_group_takes_the_job_of_the_environment(ranks, monkeypatch):
    monkeypatch.setenv("ATP_JOB", "77")
    monkeypatch.setenv("ATP_INCARNATION", "78")

    def body(rank):
        # A group that took the same job would be refused by the server, or sum the wrong ranks.
        return total(), total(dist.new_group()), total(dist.new_group())

    assert ranks.run(2, body) == [(2.0, 2.0, 2.0)] * 2


def test_a_job_keeps_its_given_number_whatever_its_incarnation(ranks, network, monkeypatch):
    monkeypatch.setenv("ATP_JOB", "77")
    monkeypatch.delenv("ATP_INCARNATION", raising=False)

    def body(rank):
        sums = total(), total(dist.new_group())
        if rank == 1:
            return sums
        asked = subprocess.run(
            [PROGRAM, "status", network.server.endpoint, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        return sums, 77 in [job["job"] for job in json.loads(asked.stdout)["jobs"]]

    results = ranks.run(2, body)
    assert results == [((2.0, 2.0), True), (2.0, 2.0)]


def test_a_group_of_one_rank_needs_no_network(ranks):
    def body(rank):
        return total(value=0.1), atp.torch.stats()["counters"]

    assert ranks.run(1, body, route="") == [(torch.tensor(0.1).item(), {})]


def test_options_name_the_route_and_the_size_of_fragments(ranks, network):
    options = atp.torch.Options(
        route=network.route, values_per_fragment=100, timeout=datetime.timedelta(seconds=9)
    )

    def body(rank):
        return total(), atp.torch.stats()["values_per_fragment"]

    assert ranks.run(2, body, route="", pg_options=options) == [(2.0, 100)] * 2


def test_each_dimension_of_a_device_mesh_has_its_own_groups_and_options(ranks):
    def body(rank):
        mesh = init_device_mesh(
            "cpu",
            (2, 2),
            mesh_dim_names=("outer", "inner"),
            backend_override={
                "outer": ("atp", atp.torch.Options(algorithm="ring")),
                "inner": ("atp", atp.torch.Options(values_per_fragment=99)),
            },
        )
        outer, inner = (mesh.get_group(name) for name in ("outer", "inner"))
        values = [atp.torch.stats(group)["values_per_fragment"] for group in (outer, inner)]
        return values, total(outer, rank), total(inner, rank)

    results = ranks.run(4, body)
    assert results == [([0, 99], float(2 * j + 2), float(4 * i + 1)) for i, j in PAIRS]


@pytest.mark.parametrize("way", WAYS)
def test_a_group_is_split_into_groups_with_its_options(ranks, monkeypatch, way):
    """torch splits the group of a device, and only where there are such devices."""

    def body(rank):
        monkeypatch.setattr(torch.accelerator, "is_available", lambda: True)
        monkeypatch.setattr(torch.accelerator, "current_accelerator", lambda: torch.device("cpu"))
        dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
        timeout = datetime.timedelta(seconds=17)
        half = dist.split_group(split_ranks=[[0, 2], [1, 3]], timeout=timeout)
        some = dist.split_group(half, split_ranks=[[1]])
        last = dist.split_group(split_ranks=[[2, 3]])
        stats = atp.torch.stats(half)
        found = [
            (stats["algorithm"], stats["host_memory"], half.rank(), half.size()),
            half._get_backend(torch.device("cpu")).options._timeout == timeout,
            *(
                total(group, float(rank)) if isinstance(group, dist.ProcessGroup) else None
                for group in (half, some, last)
            ),
            total(None, float(rank)),
        ]
        dist.destroy_process_group(half)
        return [*found, total(None, float(rank))]

    options = options_of(way)
    here = (options.algorithm, way == "memory")
    assert ranks.run(4, body, memory=way == "memory", pg_options=options) == [
        [(*here, 0, 2), True, 2.0, None, None, 6.0, 6.0],
        [(*here, 0, 2), True, 4.0, None, None, 6.0, 6.0],
        [(*here, 1, 2), True, 2.0, 2.0, 5.0, 6.0, 6.0],
        [(*here, 1, 2), True, 4.0, 3.0, 5.0, 6.0, 6.0],
    ]


def test_options_of_another_backend_are_refused(ranks):
    outcomes = ranks.outcomes(1, lambda rank: None, pg_options=object())
    assert "TypeError: pg_options of the backend atp must be atp.torch.Options" in outcomes[0].error


def test_the_debug_level_detail_works(ranks):
    def body(rank):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        group = dist.new_group()
        return total(group), atp.torch.stats(group)["innetwork"]["all_reduce"]["float32"]["calls"]

    assert ranks.run(2, body) == [(2.0, 1)] * 2


def test_the_debug_level_detail_names_both_operations_of_ranks_that_disagree(ranks):
    def body(rank):
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        group = dist.new_group()
        with pytest.raises(RuntimeError) as raised:
            dist.all_reduce(torch.ones(5 + rank), group=group)
        return str(raised.value)

    for text in ranks.run(2, body):
        assert "Detected mismatch between collectives on ranks" in text
        assert "TensorShape=[5]" in text and "TensorShape=[6]" in text


@pytest.mark.parametrize(
    ("backend", "config"),
    [
        # For the devices that torch has.
        ("atp", "cpu:atp,cuda:atp" if torch.backends.cuda.is_built() else "cpu:atp"),
        ("cpu:atp", "cpu:atp"),
        ("cpu:atp,cuda:gloo", "cpu:atp,cuda:gloo"),
    ],
)
def test_the_backend_may_be_one_of_several_by_device(ranks, backend, config):
    def body(rank):
        words = [None] * 2
        dist.all_gather_object(words, rank)
        found = total(), words, dist.get_backend_config()
        assert atp.torch.stats()["innetwork"]["all_reduce"]["float32"]["calls"] == 1
        return found

    assert ranks.run(2, body, backend=backend) == [(2.0, [0, 1], config)] * 2


def test_torchs_profiler_shows_the_operations_of_every_path(ranks):
    def body(rank):
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            total()
            dist.broadcast(torch.ones(3, 4), 0)
            dist.all_reduce(torch.ones(5), async_op=True).wait()
        return [event.name for event in profile.events() if event.name.startswith("atp:")]

    expected = ["atp:all_reduce", "atp:all_reduce", "atp:broadcast"]
    assert [sorted(names) for names in ranks.run(2, body)] == [expected] * 2


def test_stats_of_another_backends_group_are_refused(ranks):
    def body(rank):
        group = dist.new_group(backend="gloo")
        dist.barrier(group)  # so that no rank ends while another still connects Gloo
        with pytest.raises(ValueError, match="gloo, not atp"):
            atp.torch.stats(group)

    ranks.run(2, body)


def test_shutdown_waits_for_operations_in_progress(ranks):
    def body(rank):
        tensors = [torch.full((10_000,), 1.0) for _ in range(100)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        dist.destroy_process_group()
        return all(work.is_success() for work in works), sum(t[-1].item() for t in tensors)

    assert ranks.run(2, body) == [(True, 200.0)] * 2


def test_after_abort_works_and_calls_fail(ranks):
    def body(rank):
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        work = dist.all_reduce(torch.ones(10), async_op=True) if rank == 0 else None
        backend.abort()
        backend.abort()
        if work:
            with pytest.raises(RuntimeError):
                work.wait()
        with pytest.raises(RuntimeError, match="this rank has left the group"):
            dist.all_reduce(torch.ones(10))

    ranks.run(2, body)


def test_a_destroyed_group_leaves_no_thread_behind(ranks):
    def body(rank):
        before = thread_count()
        group = dist.new_group()
        total(group)
        during = thread_count()
        dist.destroy_process_group(group)
        del group
        gc.collect()
        return during > before, wait_until(lambda: thread_count() <= before)

    assert ranks.run(2, body) == [(True, True)] * 2


def test_an_aborted_group_can_go_while_a_callback_in_python_runs(ranks):
    # The callback needs the GIL, which the thread that drops the last reference holds.
    def body(rank):
        group = dist.new_group()
        tensor = torch.ones(10)
        slept = None
        if rank == 0:
            done = dist.all_reduce(tensor, group=group, async_op=True).get_future()
            slept = done.then(lambda _: time.sleep(1))
        backend = group._get_backend(torch.device("cpu"))
        backend.abort()
        dist.destroy_process_group(group)
        del group
        del backend  # the last reference
        if slept:
            slept.wait()

    ranks.run(2, body, limit_s=15)
