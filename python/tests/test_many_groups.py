"""Groups of a mesh's dimensions, all at once and made again and again, leave nothing behind."""

import os

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

import atp.torch

from .network import Network
from .packets import sent_for_sum
from .waiting import thread_count, wait_until

HALVES = ([0, 1], [2, 3])
ALGORITHMS = ("innetwork", "ring")


def options(algorithm):
    return atp.torch.Options(algorithm=algorithm)


@pytest.fixture(scope="module")
def counted(tmp_path_factory):
    """A network whose nodes write their counters."""
    with Network(tmp_path_factory.mktemp("stats")) as network:
        yield network


def is_at_rest(network) -> bool:
    server, switch = network.server.counters(), network.switch.counters()
    return (
        server["jobs_made"] == server["jobs_ended"]
        and switch["trees_made"] == switch["trees_dropped"]
    )


@pytest.mark.parametrize(
    "shape, algorithms",
    [
        ((2, 2), ("innetwork", "innetwork")),
        ((2, 4), ("innetwork", "innetwork")),
        ((4, 2), ("ring", "innetwork")),
        ((2, 4), ("ring", "ring")),
    ],
)
def test_all_groups_of_a_mesh_work_at_the_same_time(ranks, counted, shape, algorithms):
    outer_size, inner_size = shape
    rounds = 5

    def body(rank):
        names = ("outer", "inner")
        mesh = init_device_mesh(
            "cpu",
            shape,
            mesh_dim_names=names,
            backend_override={
                name: ("atp", options(algorithm))
                for name, algorithm in zip(names, algorithms, strict=True)
            },
        )
        tensors = [torch.full((3000,), float(rank + i)) for i in range(2 * rounds)]
        works = [
            dist.all_reduce(tensor, group=mesh.get_group(names[i % 2]), async_op=True)
            for i, tensor in enumerate(tensors)
        ]
        for work in works:
            work.wait()
        assert all(torch.all(tensor == tensor[0]) for tensor in tensors)
        stats = [atp.torch.stats(mesh.get_group(name)) for name in names]
        assert not any("all_reduce" in each["peers"] for each in stats)
        return [tensor[0].item() for tensor in tensors]

    results = ranks.run(outer_size * inner_size, body, route=counted.route)
    for rank, sums in enumerate(results):
        i, j = divmod(rank, inner_size)
        column = [a * inner_size + j for a in range(outer_size)]
        row = [i * inner_size + b for b in range(inner_size)]
        groups = (column, row)
        assert sums == [
            float(sum(groups[k % 2]) + k * len(groups[k % 2])) for k in range(2 * rounds)
        ]


def test_bytes_in_the_network_are_the_packets_bytes(ranks):
    sizes = [1, 100, 101, 1000, 12_345]

    def body(rank):
        for size in sizes:
            dist.all_reduce(torch.ones(size))
        stats = atp.torch.stats()
        return stats["bytes_sent"], stats["counters"]["gradients_sent"]

    results = ranks.run(3, body, pg_options=atp.torch.Options(values_per_fragment=100))
    packets, size = map(sum, zip(*(sent_for_sum(size, 3, 100) for size in sizes), strict=True))
    assert results == [(size, packets)] * 3


def file_count() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fifty_groups_one_after_the_other_leave_nothing_behind(ranks, counted, algorithm):
    def body(rank):
        def cycle(value):
            halves = [dist.new_group(half, pg_options=options(algorithm)) for half in HALVES]
            mine = halves[rank // 2]
            tensor = torch.full((1000,), value)
            dist.all_reduce(tensor, group=mine)
            dist.destroy_process_group(mine)
            return tensor[-1].item()

        assert cycle(1.0) == 2
        threads, files = thread_count(), file_count()
        sums = [cycle(float(i)) for i in range(49)]
        # Sockets that the kernel is still closing may be in the first count.
        return sums, wait_until(lambda: thread_count() <= threads and file_count() <= files)

    jobs_before = counted.server.counters()["jobs_made"]
    for sums, nothing_left in ranks.run(4, body, route=counted.route):
        assert sums == [2.0 * i for i in range(49)] and nothing_left
    made = 1 + 50 * len(HALVES) if algorithm == "innetwork" else 1  # the default group's first
    assert wait_until(lambda: counted.server.counters()["jobs_made"] - jobs_before >= made)


def test_a_rank_may_end_without_destroying_its_group(ranks, counted):
    def body(rank):
        group = dist.new_group(HALVES[0], pg_options=options("innetwork"))
        if rank < 2:
            dist.all_reduce(torch.ones(10), group=group)
        dist.barrier()
        os._exit(0)

    outcomes = ranks.outcomes(3, body, route=counted.route)
    assert all(outcome.error is None for outcome in outcomes)


def test_after_all_of_this_no_job_and_no_tree_is_left(counted):
    # Switches keep a tree a while longer.
    assert wait_until(lambda: is_at_rest(counted), seconds=30)
    assert counted.server.counters()["jobs_made"] > 100
