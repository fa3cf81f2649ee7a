"""The systems that experiments/papers compares ATP with: each against its closed form.

The rules of SwitchML's pool have unit tests beside their sources; here its processes run.
"""

import contextlib
import json
import subprocess

import pytest

from experiments.papers import ring, servers
from experiments.papers.fabric import RDMA, Fabric, Host, tcp
from experiments.papers.ring import Ring
from experiments.papers.servers import Servers
from experiments.report import BUILD
from lab.ports import free_port

SLOW = Host(1000, 100, packet_ns=10, byte_ns=0.01)  # a host whose link is its bottleneck
BUSY = Host(1000, 100, packet_ns=500, byte_ns=0.1)  # one that takes longer than its link
LINE, DELAY = 100, 1000


def stages(host, size):
    """The nanoseconds for which a host works on a segment, and those that a link takes."""
    return host.work_ns(size), size * (1 + host.header / host.payload) * 8 / LINE


def hop(host, size):
    work, wire = stages(host, size)
    return 2 * (work + wire + DELAY)


@pytest.mark.parametrize(
    "host, gbit",
    [
        (RDMA, 100 * 4096 / 4178),
        (tcp(40), 40),
        (tcp(1000), 100 * 1448 / 1538),
        (BUSY, 8 / 0.6),
    ],
)
def test_a_host_is_as_fast_as_the_slower_of_its_link_and_its_work(host, gbit):
    assert host.gbit(LINE) == pytest.approx(gbit)


@pytest.mark.parametrize("host", [SLOW, BUSY])
def test_a_transfer_alone_takes_the_time_of_its_four_stages(host):
    fabric, times = Fabric(2, host), []
    fabric.send(0.0, 0, 1, 5000, times.append)
    fabric.run()
    assert times == [pytest.approx(hop(host, 5000))]


@pytest.mark.parametrize("host", [SLOW, BUSY])
def test_segments_in_a_row_overlap_in_their_stages(host):
    fabric, times = Fabric(2, host), []
    for _ in range(10):
        fabric.send(0.0, 0, 1, 5000, times.append)
    fabric.run()
    slowest = max(stages(host, 5000))
    gaps = [b - a for a, b in zip(times, times[1:], strict=False)]
    assert gaps == pytest.approx([slowest] * 9)


def test_senders_to_one_host_share_its_link():
    fabric, times = Fabric(4, SLOW), []
    for source in (1, 2, 3):
        fabric.send(0.0, source, 0, 5000, times.append)
    fabric.run()
    _, wire = stages(SLOW, 5000)
    assert times[-1] == pytest.approx(hop(SLOW, 5000) + 2 * wire)


def test_within_a_host_nothing_is_sent():
    fabric, times = Fabric(2, BUSY), []
    fabric.send(5.0, 1, 1, 5000, times.append)
    fabric.run()
    assert times == [5.0]


@pytest.mark.parametrize("workers", [1, 8])
def test_one_partition_of_one_segment_takes_the_time_of_its_queues(workers):
    size = 10_000
    setup = Servers(workers, 1, False, SLOW, partitions=1, partition_bytes=size,
                    segment_bytes=size)  # fmt: skip
    _, wire = stages(SLOW, size)
    there_and_back = 2 * (hop(SLOW, size) + (workers - 1) * wire)
    assert servers.play(setup).ns == pytest.approx(there_and_back, rel=1e-9)


# One to one, N to one, N to N on hosts of their own, and N to N on the workers' hosts.
SHAPES = {"1 to 1": (1, 1, False), "N to 1": (8, 1, False), "N to N, hosts of their own":
          (8, 8, False), "N to N": (8, 8, True), "N to half of N": (8, 4, True)}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("host", [RDMA, tcp(40), BUSY], ids=["RDMA", "TCP", "busy"])
def test_servers_are_as_fast_as_their_busiest_host(shape, host):
    setup = Servers(*SHAPES[shape], host)
    assert servers.play(setup).gbit == pytest.approx(setup.bound(), rel=0.03)


@pytest.mark.parametrize(
    "shape, gbit",
    [("1 to 1", 40), ("N to 1", 5), ("N to N, hosts of their own", 40), ("N to N", 40 * 8 / 14)],
)
def test_the_bound_of_servers_is_what_their_hosts_carry(shape, gbit):
    assert Servers(*SHAPES[shape], tcp(40)).bound() == pytest.approx(gbit)


def test_with_one_partition_under_way_each_waits_for_its_answer():
    common = {"workers": 1, "servers": 1, "colocated": False, "partition_bytes": 1_000_000}
    one = servers.play(Servers(**common, partitions=1, credits=1))
    ten = servers.play(Servers(**common, partitions=10, credits=1))
    assert ten.ns == pytest.approx(10 * one.ns, rel=1e-9)


def test_more_servers_than_hosts_of_workers_are_refused():
    with pytest.raises(ValueError, match="expected at most a server per worker's host"):
        servers.play(Servers(workers=2, servers=3))


@pytest.mark.parametrize("workers", [2, 8])
def test_a_ring_of_one_segment_per_chunk_takes_a_hop_per_step(workers):
    setup = Ring(workers, SLOW, tensor_bytes=workers * 10_000, segment_bytes=10_000)
    assert ring.play(setup).ns == pytest.approx(2 * (workers - 1) * hop(SLOW, 10_000), rel=1e-9)


@pytest.mark.parametrize("workers", [2, 4, 8])
def test_a_ring_whose_chunks_fill_the_path_keeps_its_links_busy(workers):
    segments, size = 100, 10_000
    setup = Ring(workers, SLOW, workers * segments * size, size)
    work, wire = stages(SLOW, size)
    last = hop(SLOW, size) - wire  # of the last segment, without its turn on the link
    expected = setup.steps * segments * wire + last
    assert ring.play(setup).ns == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("host", [RDMA, tcp(40), BUSY], ids=["RDMA", "TCP", "busy"])
def test_a_ring_is_as_fast_as_its_hosts(host):
    setup = Ring(host=host)
    assert setup.bound() == pytest.approx(host.gbit(LINE) * 8 / 14)
    assert ring.play(setup).gbit == pytest.approx(setup.bound(), rel=0.02)


POOL = BUILD / "bin" / "slot_pool"


@contextlib.contextmanager
def pool_switch(workers, slots, stats):
    """Yields its address."""
    address = f"127.0.0.1:{free_port()}"
    words = [str(word) for word in (POOL, "switch", address, workers, slots, stats)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as switch:
        try:
            assert switch.stdout.readline() == "listening on\n"
            yield address
        finally:
            switch.kill()


def start_workers(address, slots, timeout_ms, world_sizes):
    """A worker per entry of `world_sizes`: how many workers it believes there are."""
    return [
        subprocess.Popen(
            [str(w) for w in (POOL, "worker", address, rank, n, slots, timeout_ms, 100_000, 0.5)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank, n in enumerate(world_sizes)
    ]


def completed(stats):
    lines = stats.read_text().rpartition("\n")[0].splitlines()
    return json.loads(lines[-1])["counters"]["fragments_completed"]


# The last time-out is shorter than a round trip, so that most packets are repeated.
@pytest.mark.parametrize("slots, timeout_ms", [(1, 200), (64, 200), (1000, 200), (8, 0.02)])
def test_the_processes_of_a_pool_sum_without_an_error(slots, timeout_ms, tmp_path):
    stats = tmp_path / "pool.jsonl"
    with pool_switch(3, slots, stats) as address:
        workers = start_workers(address, slots, timeout_ms, [3] * 3)
        texts = [worker.communicate(timeout=60)[0] for worker in workers]
        assert [worker.returncode for worker in workers] == [0] * 3, texts
    assert "# Out of bounds values : 0 OK" in texts[0]
    assert completed(stats) > 0
    if timeout_ms < 1:
        assert all("# repeats 0\n" not in text for text in texts)


def test_a_sum_of_workers_other_than_expected_is_noticed(tmp_path):
    with pool_switch(2, 8, tmp_path / "pool.jsonl") as address:
        workers = start_workers(address, 8, 200, [3, 3])
        texts = [worker.communicate(timeout=60)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [1, 1]
    assert "values of sum 0 are wrong" in texts[0]


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["switch", "127.0.0.1", "2", "8", "/dev/null"],
        ["switch", "127.0.0.1:5501", "65", "8", "/dev/null"],
        ["worker", "127.0.0.1:5501", "2", "2", "8", "1", "1000", "1"],
        ["worker", "127.0.0.1:5501", "0", "2", "0", "1", "1000", "1"],
    ],
)
def test_a_pool_started_wrongly_says_how_to_start_it(words):
    done = subprocess.run([POOL, *words], capture_output=True, text=True, timeout=10)
    assert done.returncode == 2 and done.stderr.startswith("usage: slot_pool switch")
