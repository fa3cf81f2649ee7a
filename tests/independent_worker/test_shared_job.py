"""A worker written from docs/inside/protocol alone shares jobs with ours: both get the same bits.

If such a test fails, either the page or the code is wrong. A rule that worker.py needs and does
not find on the page is a defect of the page.
"""

import json
import re
import socket
import subprocess

import pytest

from lab.ports import free_ports
from tests.e2e.conftest import REPOSITORY

from .detaching import DetachingWorker
from .numbers import FORMAT_BLOCKS_16, FORMAT_EXACT, fingerprint, layout_of
from .packets import ProtocolError, Type
from .several import SeveralServers
from .shared_job import Lossy, SharedJob
from .worker import Worker

STREAMS = 2  # of each of our ranks, per server


def plain(type_, reduction, *segments, specials=0, tag=0):
    return (type_, reduction, list(segments), specials, tag)


SUMS = [plain("float32", "sum", size) for size in (1, 255, 256, 257, 100_000)]
INTEGERS = [plain("int32", r, size) for r in ("sum", "max", "min") for size in (3, 30_000)]
OTHERS = [
    plain("float32", "avg", 5_000),
    plain("float32", "avg", 77),
    plain("float16", "sum", 5_000),
    plain("float16", "avg", 9, tag=2**32 - 1),
    plain("float32", "max", 3_000, specials=100),
    plain("float32", "min", 200, specials=20),
    plain("float32", "sum", 300, 0, 1, 5_000, tag=7),
    plain("float32", "sum", 0, 5_000, 0, tag=8),
    plain("float32", "sum", 20_000, specials=12),
    plain("float32", "sum", 40, specials=12),
    plain("float32", "sum", 30, 10, tag=9),
    plain("int32", "sum", 3_000, 10, tag=10),
]
ALL = [step for steps in zip(SUMS, INTEGERS, OTHERS, strict=False) for step in steps] + OTHERS[5:]


def tree(cluster):
    return [("127.0.0.1", cluster.switch_port), ("127.0.0.1", cluster.server_port)]


def independent(job, world_size, route, worker=Worker, **options):
    return worker(job.cluster.job, 1, job.rank, world_size, route, STREAMS, **options)


def status(cluster, address):
    answer = subprocess.run(
        [cluster.atp, "status", "--json", address], capture_output=True, text=True, timeout=10
    )
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)


def start(cluster, *switch_options):
    cluster.start_server()
    cluster.start_switch(*switch_options)


def summed_in_switches(cluster):
    """Of the fragments that switches may sum: the complete ones, and those that switches summed."""
    nodes = status(cluster, cluster.server_address)
    integers = nodes["fragments"] - nodes["fragments_as_floats"]
    return integers, nodes["fragments_summed_in_switches"]


@pytest.mark.parametrize("world_size", [2, 3])
def test_an_independent_worker_and_ours_get_the_same_bits_through_a_switch(cluster, world_size):
    start(cluster)
    job = SharedJob(cluster, ALL, world_size, world_size - 1, tree(cluster))
    job.run(independent(job, world_size, tree(cluster)))
    job.check()
    # Repeats that only slowness caused may take some past the switch; a wrong index would take all.
    integers, summed = summed_in_switches(cluster)
    assert summed > integers / 2


def test_these_are_the_bits_that_our_ranks_get_alone(cluster):
    start(cluster)
    shared = SharedJob(cluster, ALL, 2, 1, tree(cluster))
    shared.run(independent(shared, 2, tree(cluster)))
    cluster.job += 1
    alone = SharedJob(cluster, ALL, 2, None, tree(cluster))
    for process in alone.ours.values():
        assert process.wait(20) == 0, process.output()
    for i, (mine, theirs) in enumerate(zip(shared.sums, alone.results_of(1), strict=True)):
        assert mine.result().tobytes() == theirs.tobytes(), f"operation {i}, {ALL[i]}"


def test_they_agree_without_a_switch(cluster):
    cluster.start_server()
    route = [("127.0.0.1", cluster.server_port)]
    job = SharedJob(cluster, ALL, 2, 0, route)
    job.run(independent(job, 2, route))
    job.check()


def test_they_agree_over_several_servers(cluster):
    ports = free_ports(3)
    for port in ports:
        command = [cluster.atp, "server", "--listen", f"127.0.0.1:{port}"]
        cluster.start(f"server{port}", command)
    plan = [
        plain("float32", "sum", 70_000),
        plain("float32", "sum", 400_000),
        plain("int32", "sum", 131_073),
        plain("float32", "sum", 1_000, 65_100, 66_000),
        plain("float32", "avg", 257),
        plain("float32", "sum", 65_536, 65_536 + 100, specials=5, tag=3),
        plain("int32", "max", 200_000),
    ]
    ways = [[("127.0.0.1", port)] for port in ports]
    route = ";".join(f"127.0.0.1:{port}" for port in ports)
    job = SharedJob(cluster, plan, 2, 1, ways[0], ATP_ROUTE=route)
    workers = [independent(job, 2, way, first_stream=STREAMS * i) for i, way in enumerate(ways)]
    job.run(SeveralServers(workers))
    job.check()


def test_they_agree_when_only_the_independent_worker_has_a_switch(cluster):
    start(cluster)
    job = SharedJob(cluster, ALL, 2, 0, [("127.0.0.1", cluster.server_port)])
    job.run(independent(job, 2, tree(cluster)))
    job.check()


@pytest.mark.parametrize("world_size", [2, 3])
def test_they_agree_when_packets_of_the_independent_worker_are_lost(cluster, world_size):
    start(cluster)
    plan = [*SUMS, *INTEGERS, OTHERS[6], OTHERS[8]]
    job = SharedJob(cluster, plan, world_size, 0, tree(cluster))
    udp = Lossy(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0.02, seed=1)
    job.run(independent(job, world_size, tree(cluster), udp=udp))
    job.check()
    assert udp.lost > 20


@pytest.mark.parametrize("type_", [Type.GRADIENT, Type.PARAMETER], ids=lambda t: t.name)
def test_they_agree_when_the_only_packet_is_lost_twice(cluster, type_):
    """Only the worker's own timer can notice a lost PARAMETER."""
    start(cluster)
    job = SharedJob(cluster, [plain("int32", "sum", 10)], 2, 1, tree(cluster))
    udp = Lossy(socket.socket(socket.AF_INET, socket.SOCK_DGRAM), 0, seed=1)
    worker = independent(job, 2, tree(cluster), udp=udp)
    with job.telling():
        worker.join()
        udp.lose_next(2, type_)
        job.submit(worker, range(1))
        worker.wait()
        job.finish(worker)
    job.check()
    assert udp.lost == 2


def test_they_agree_when_fragments_collide_and_indexes_move(cluster):
    """With 32 values in a packet a stream goes through its 1,024 indexes several times."""
    start(cluster, "--aggregators", "128")
    plan = [plain("float32", "sum", 100_000), plain("int32", "sum", 60_000)]
    job = SharedJob(cluster, plan, 2, 1, tree(cluster))
    job.run(independent(job, 2, tree(cluster), values=32))
    job.check()
    assert status(cluster, cluster.switch_address)["collisions"] > 0
    integers, summed = summed_in_switches(cluster)
    assert summed > integers / 2


def test_they_agree_when_the_server_places_fragments_in_order(cluster):
    cluster.start_server("--placement", "linear")
    cluster.start_switch()
    plan = [plain("float32", "sum", 100_000), plain("int32", "sum", 60_000)]
    job = SharedJob(cluster, plan, 2, 1, tree(cluster))
    job.run(independent(job, 2, tree(cluster)))
    job.check()
    integers, summed = summed_in_switches(cluster)
    assert summed > integers / 2


@pytest.mark.parametrize(
    ("number_format", "variable"),
    [(FORMAT_BLOCKS_16, {"ATP_WIRE": "int16"}), (FORMAT_EXACT, {"ATP_EXACT": "1"})],
    ids=["16 bits", "exact"],
)
def test_they_agree_in_the_other_number_formats(cluster, number_format, variable):
    start(cluster)
    job = SharedJob(cluster, [*SUMS, *OTHERS], 2, 1, tree(cluster), **variable)
    job.run(independent(job, 2, tree(cluster), number_format=number_format))
    job.check(bits=15 if number_format == FORMAT_BLOCKS_16 else 30)


def test_they_agree_when_the_switch_forgets_everything(cluster):
    start(cluster)
    job = SharedJob(cluster, ALL, 2, 1, tree(cluster))
    worker = independent(job, 2, tree(cluster))
    with job.telling():
        worker.join()
        job.submit(worker, range(8))
        worker.wait()
        cluster.processes[1].kill()
        cluster.start_switch()
        job.submit(worker, range(8, len(ALL)))
        worker.wait(15)
        job.finish(worker)
    job.check()


def test_they_agree_when_the_switch_dies_and_comes_back(cluster):
    start(cluster)
    plan = 3 * [plain("float32", "sum", 20_000), plain("int32", "max", 20_000)]
    job = SharedJob(cluster, plan, 2, 1, tree(cluster))
    worker = independent(job, 2, tree(cluster), worker=DetachingWorker)
    with job.telling():
        worker.join()
        job.submit(worker, range(2))
        worker.wait()
        cluster.processes[1].kill()
        job.submit(worker, range(2, 4))
        worker.wait(15)
        assert not worker.attached
        cluster.start_switch()
        worker.wait_until(lambda: worker.attached, 5, "the way through the tree")
        job.submit(worker, range(4, 6))
        worker.wait(15)
        job.finish(worker)
    job.check()
    assert status(cluster, cluster.switch_address)["sums_completed"] > 0


def test_both_are_told_when_they_do_not_agree_on_the_operation(cluster):
    start(cluster)
    job = SharedJob(cluster, [plain("int32", "sum", 10)], 2, 1, tree(cluster))
    worker = independent(job, 2, tree(cluster))
    worker.join()
    worker.submit(job.contributions[0][1], "max")
    with pytest.raises(ProtocolError, match="operation mismatch: ranks 0x"):
        worker.wait()
    assert job.ours[0].wait(10) == 1
    assert "operation 0: " in job.ours[0].output()


def test_a_rank_that_has_left_is_told_so_when_it_joins_again(cluster):
    start(cluster)
    job = SharedJob(cluster, [plain("int32", "sum", 10)], 3, 2, tree(cluster))
    first = independent(job, 3, tree(cluster))
    with job.telling():
        first.join()
        job.submit(first, range(1))
        first.wait()
        assert job.ours[0].wait(10) == 0
        ours = job.start_again(0)
        first.wait_until(lambda: not ours.running(), 10, "the answer to rank 0")
        assert "rank 0 cannot join the job: it has already left the job" in ours.output()
    job.check()


def vectors():
    """The rows of the page's table of fingerprints."""
    page = (REPOSITORY / "docs" / "inside" / "protocol" / "worker.md").read_text()
    cells = 6 * r"([^|\n]*)\|"
    rows = re.findall(rf"^ *\| (\d+) \|{cells}$", page, re.M)
    assert len(rows) >= 6, f"docs/inside/protocol has no table of fingerprints, but {rows}"
    return [[cell.strip() for cell in row] for row in rows]


def test_fingerprints_are_those_of_the_page():
    for number, length, what, segments, layout, tag, wanted in vectors():
        type_, reduction, kind, *small = what.replace(",", "").split()
        lengths = [int(length)] if segments == "one" else [int(s) for s in segments.split(" + ")]
        assert layout_of(lengths) == int(layout, 16), segments
        found = fingerprint(
            int(number), int(length), type_, reduction.lower(), int(kind, 16), bool(small),
            layout_of(lengths), int(tag),
        )  # fmt: skip
        assert f"`{found:#010x}`" == wanted, (number, length, what, segments, tag)
