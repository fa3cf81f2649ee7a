"""algorithm="auto": all ranks choose the same way for a sum, and the choice changes no bit."""

import datetime
import itertools
import logging
import os
import signal

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch
from atp.torch import _choice

from .network import Network
from .test_errors import errors_of

AUTO = atp.torch.Options(algorithm="auto")
DIGEST = atp.torch.Options(algorithm="auto", digest=True)
NETWORK_DIGEST = atp.torch.Options(algorithm="innetwork", digest=True)
# The ring is expected to be the faster one from some 10 kB on.
RING_FOR_LARGE = "innetwork=1e-5,1e-7;ring=1e-3,1e-9"
RING_FOR_ALL = "innetwork=1e-3,1e-7;ring=1e-5,1e-9"
RING_FOR_NONE = "innetwork=1e-5,1e-9;ring=1e-3,1e-7"
SIZES = (10, 100_000, 1000, 30_000, 5)


@pytest.fixture
def figures(monkeypatch):
    """Sets the expected times of the ways."""
    return lambda text: monkeypatch.setenv("ATP_EXPECTED_TIMES", text)


def values(rank, size):
    return torch.randn(size, generator=torch.Generator().manual_seed(1000 * rank + size))


def counts():
    choice = atp.torch.stats()["choice"]
    return choice["innetwork"], choice["ring"]


@pytest.mark.parametrize(
    "text, expected",
    [(RING_FOR_LARGE, (3, 2)), (RING_FOR_ALL, (0, 5))],
)
def test_small_and_large_sums_take_the_faster_way(ranks, figures, text, expected):
    figures(text)

    def body(rank):
        for size in SIZES:
            dist.all_reduce(torch.ones(size))
        return counts(), atp.torch.stats()

    for found, stats in ranks.run(3, body, pg_options=AUTO):
        assert found == expected
        assert stats["algorithm"] == "auto"
        assert "over a ring" in stats["choice"]["reason"]
        assert "according to ATP_EXPECTED_TIMES" in stats["choice"]["reason"]
        assert stats["counters"]["ring_bytes_sent"] > 0
        assert stats["bytes_sent"] >= stats["counters"]["ring_bytes_sent"]


def test_no_ring_is_made_where_the_network_is_faster_for_all_sizes(ranks, figures):
    figures(RING_FOR_NONE)

    def body(rank):
        for size in SIZES:
            dist.all_reduce(torch.ones(size))
        return atp.torch.stats()

    for stats in ranks.run(2, body, pg_options=AUTO):
        assert stats["choice"] == {
            "reason": "in the network: faster for all sizes according to ATP_EXPECTED_TIMES"
        }
        assert "ring_bytes_sent" not in stats["counters"]


def mixed_work(rank, step):
    works, tensors = [], []
    for size in SIZES:
        tensors.append(values(rank + 10 * step, size))
        works.append(dist.all_reduce(tensors[-1], op=dist.ReduceOp.AVG, async_op=True))
    tensors.append(values(rank, 9000).bfloat16())
    works.append(dist.all_reduce(tensors[-1], async_op=True))
    tensors.append(values(rank, 9000))
    works.append(dist.all_reduce(tensors[-1], op=dist.ReduceOp.MAX, async_op=True))
    tensors.append(values(rank, 20_000))
    scaled = dist._make_nccl_premul_sum(0.3)
    works.append(dist.all_reduce(tensors[-1], op=scaled, async_op=True))
    pieces = [values(rank, 7000), values(rank, 300)]
    dist.all_reduce_coalesced(pieces)
    for work in works:
        work.wait()
    dist.barrier()
    return [tensor.float().numpy().tobytes() for tensor in tensors + pieces]


def test_bits_and_digest_match_the_network_whatever_is_chosen_and_while_it_changes(
    ranks, figures, monkeypatch
):
    # Almost equal, and compared so often that measured times change the choice during the run.
    monkeypatch.setattr(_choice, "_JUDGED_EVERY", 3)

    def body(rank):
        results = [mixed_work(rank, step) for step in range(8)]
        return results, atp.torch.digest(), atp.torch.stats()["choice"]

    expected = ranks.run(3, body, pg_options=NETWORK_DIGEST)
    assert expected[0][2] is None
    for text in (RING_FOR_LARGE, RING_FOR_ALL, "innetwork=1e-4,1e-8;ring=1e-4,9.9e-9"):
        figures(text)
        found = ranks.run(3, body, pg_options=DIGEST)
        assert [one[:2] for one in found] == [one[:2] for one in expected]
        assert found[0][2]["judgements"] == (8 * 9 - 1) // 3 - 1
        assert [one[2] for one in found] == [found[0][2]] * 3, "all ranks chose the same"


def planted(monkeypatch, network_ns, ring_ns):
    """Measured times of the probe, by (rank, bytes)."""
    real = _choice._probe

    def probe(meeting, options, timeout, group, ring):
        class Way:
            def __init__(self, of):
                self._of = of

            def measure(self, values, **_):
                return self._of(group.rank(), 4 * values)

        class Group(Way):
            def rank(self):
                return group.rank()

        return real(meeting, options, timeout, Group(network_ns), Way(ring_ns))

    monkeypatch.setattr(_choice, "_probe", probe)


def test_ranks_with_different_measurements_all_choose_by_the_slowest(ranks, monkeypatch):
    # Alone, rank 0 would take the network for all sizes, and rank 1 the ring.
    monkeypatch.setattr(_choice, "_JUDGED_EVERY", 0)  # by what is planted alone
    planted(
        monkeypatch,
        lambda rank, size: 1000 + size * (1 if rank == 0 else 90),
        lambda rank, size: 900_000 + size * (80 if rank == 0 else 1),
    )

    def body(rank):
        for size in SIZES * 2:
            dist.all_reduce(torch.ones(size))
        return atp.torch.stats()["choice"]

    first, *others = ranks.run(3, body, pg_options=AUTO)
    assert others == [first] * 2
    assert first["ring_from_bytes"] == 131072, "900,000 / (90 - 80), the next power of two"
    # The largest sum takes the ring, and its second one the network, as a trial; the second
    # largest, which is about as fast on both, the other way round.
    assert (first["innetwork"], first["ring"], first["trials"]) == (8, 2, 2)
    assert "innetwork 1 us and 94.4 ms per MiB" in first["reason"]
    assert "according to what the ranks measured" in first["reason"]


def test_without_figures_both_ways_are_measured_and_the_digest_does_not_see_it(ranks):
    def body(rank):
        empty = atp.torch.digest()
        dist.all_reduce(torch.ones(5000))
        return empty, counts(), atp.torch.stats()["choice"], atp.torch.digest()

    found = ranks.run(2, body, pg_options=DIGEST)
    assert found[0] == found[1]
    empty, chosen, choice, _ = found[0]
    assert empty == "0" * 32
    assert sum(chosen) == 1
    assert "according to what the ranks measured" in choice["reason"]


POINTS = {
    "a latency and a slope": ([(1000, 3000), (2000, 4000)], (2000, 1000)),
    "sizes in between do not count": ([(1000, 3000), (1500, 9), (2000, 4000)], (2000, 1000)),
    "the time of a single size is all slope": ([(1000, 3000)], (0, 3000)),
    "no less time for more bytes": ([(1000, 3000), (2000, 2500)], (2999, 1)),
    "no latency below zero": ([(1000, 10), (2000, 4000)], (0, 3990)),
}


@pytest.mark.parametrize("points, expected", POINTS.values(), ids=POINTS)
def test_the_times_of_sizes_give_two_figures(points, expected):
    assert _choice.line_through(points) == expected


@pytest.mark.parametrize(
    "milliseconds, rounds",
    [((0.1, 0.1), 3), ((6, 6), 3), ((12, 6), 1), ((20, 10), 0), ((1e6, 1e6), 0), ((0, 0), 3)],
)
def test_the_next_size_is_measured_as_often_as_time_permits(milliseconds, rounds):
    assert _choice._rounds_of_next([int(each * 1e6) for each in milliseconds]) == rounds


def test_without_a_route_the_ring_sums_and_a_warning_says_why(ranks, caplog):
    def body(rank):
        tensor = values(rank, 5000)
        dist.all_reduce(tensor)
        return tensor.numpy().tobytes(), atp.torch.stats()["choice"]

    def logged(rank):
        records = []
        handler = logging.Handler()
        handler.emit = records.append
        logger = logging.getLogger("atp.torch")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        dist.new_group([0, 1], pg_options=AUTO)
        soon = datetime.timedelta(seconds=1)
        lost = atp.torch.Options(algorithm="auto", route="127.0.0.1:9", join_timeout=soon)
        dist.new_group([0, 1], pg_options=lost)
        return [(record.levelname, record.getMessage()) for record in records]

    reason = (
        "over a ring: the ranks cannot sum in the network (no route to a server was given: set "
        "ATP_ROUTE or Options.route)"
    )
    found = ranks.run(2, body, route="", pg_options=AUTO)
    assert [choice for _, choice in found] == [{"reason": reason}] * 2
    expected = ranks.run(2, body, pg_options=atp.torch.Options(algorithm="innetwork"))
    assert [bits for bits, _ in found] == [bits for bits, _ in expected]
    first, second = ranks.run(2, logged, route="", pg_options=AUTO)
    usual, (level, text) = first
    assert usual == ("INFO", f"atp: group of 2 ranks sums {reason}")
    assert level == "WARNING" and "127.0.0.1:9" in text
    assert second == [], "one of them is enough"


def test_without_a_switch_the_ring_sums_and_the_reason_says_why(ranks):
    options = atp.torch.Options(algorithm="auto", join_timeout=datetime.timedelta(seconds=2))

    def body(rank):
        tensor = torch.ones(5000)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((5000,), 3.0))
        with pytest.raises(ValueError, match="this group keeps no digest; it sums over a ring"):
            atp.torch.digest()
        return atp.torch.stats()["choice"]["reason"]

    first, *others = ranks.run(3, body, route="127.0.0.1:9", pg_options=options)
    assert others == [first] * 2
    assert first.startswith("over a ring: the ranks cannot sum in the network (rank ")
    assert "127.0.0.1:9" in first


def test_if_one_rank_lacks_a_way_all_take_the_other(ranks, monkeypatch):
    real = _choice._made_by_all

    def made(meeting, way, make, timeout):
        if way == "ring" and meeting.name_of(0) == "rank 0" and meeting._rank == 1:

            def make():
                raise RuntimeError("planted")

        return real(meeting, way, make, timeout)

    monkeypatch.setattr(_choice, "_made_by_all", made)

    def body(rank):
        dist.all_reduce(torch.ones(5000))
        return atp.torch.stats()["choice"]["reason"]

    options = atp.torch.Options(algorithm="auto", join_timeout=datetime.timedelta(seconds=2))
    first, *others = ranks.run(3, body, pg_options=options)
    assert others == [first] * 2
    assert first.startswith("in the network: the ranks cannot connect to form a ring (rank ")


WHO_IS_ASKED = {
    "the first of those that know why": ({1: "no answer", 2: "no answer"}, "rank 1: no answer"),
    "a rank that knows why, before one that waited for it": (
        {0: "rank 0 cannot join the job: rank 1 has not joined within 30 s", 1: "no answer"},
        "rank 1: no answer",
    ),
    "one that waited, if nobody else says anything": (
        {0: "rank 1 has not joined within 30 s"},
        "rank 0: rank 1 has not joined within 30 s",
    ),
    "nobody, if all went well": ({}, ""),
}


@pytest.mark.parametrize("who", WHO_IS_ASKED)
def test_the_reason_is_of(who):
    class Meeting:
        name_of = staticmethod("rank {}".format)

    errors, reason = WHO_IS_ASKED[who]
    assert _choice._first_failure(Meeting, errors) == reason


@pytest.mark.parametrize("way, other", [("innetwork", "over a ring"), ("ring", "in the network")])
def test_a_way_that_fails_in_the_probe_is_reported_and_not_chosen(ranks, monkeypatch, way, other):
    def failing(rank, size):
        if rank == 1:
            raise RuntimeError("planted\nwith more lines")
        return 1000

    def fine(rank, size):
        return 1000

    planted(monkeypatch, *((failing, fine) if way == "innetwork" else (fine, failing)))

    def body(rank):
        tensor = torch.ones(5000)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((5000,), 3.0))
        return atp.torch.stats()["choice"]["reason"]

    first, *others = ranks.run(3, body, pg_options=AUTO)
    assert others == [first] * 2
    assert first.startswith(f"{other}: a sum ")
    assert first.endswith("has failed (rank 1: planted)")


def test_on_one_host_auto_uses_the_hosts_memory(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(5000))
        return atp.torch.stats()

    for stats in ranks.run(2, body, route="", memory=True, pg_options=AUTO):
        assert stats["host_memory"]
        assert stats["choice"] == {"reason": "the host's memory: all ranks are on one host"}


def test_a_fixed_scale_takes_the_network(ranks):
    def body(rank):
        dist.all_reduce(torch.ones(5000))
        return atp.torch.stats()["algorithm"]

    options = atp.torch.Options(algorithm="auto", scale="fixed")
    assert ranks.run(2, body, pg_options=options) == ["innetwork"] * 2


def test_a_rank_with_another_algorithm_is_named(ranks):
    def body(rank):
        options = atp.torch.Options(algorithm=("auto", "innetwork")[rank])
        dist.new_group([0, 1], pg_options=options)

    for error in errors_of(ranks.outcomes(2, body)):
        assert "rank 1" in error and "algorithm" in error and "'auto'" in error


UNREADABLE = ["soon", "innetwork=1,1", "innetwork=1,1;ring=1", "innetwork=1,1;ring=1,nan"]


@pytest.mark.parametrize("text", [*UNREADABLE, "innetwork=1,0;ring=1,1", "innetwork=-1,1;ring=1,1"])
def test_figures_that_cannot_be_read_are_named(ranks, figures, text):
    figures(text)
    for error in errors_of(ranks.outcomes(2, lambda rank: None, pg_options=AUTO)):
        assert f"ATP_EXPECTED_TIMES='{text}': expected innetwork=SECONDS" in error


@pytest.mark.parametrize("text", [RING_FOR_LARGE, RING_FOR_ALL])
def test_a_killed_rank_ends_both_ways_at_the_others(ranks, figures, text):
    figures(text)

    def body(rank):
        dist.all_reduce(torch.ones(100))
        dist.all_reduce(torch.ones(100_000))
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        errors = []
        for size in itertools.islice(itertools.cycle((100, 100_000)), 1000):
            try:
                dist.all_reduce(torch.ones(size))
            except dist.DistBackendError as error:
                errors.append(str(error))
            if len(errors) == 2:
                return errors

    for outcome in ranks.outcomes(3, body, waited_for=[0, 2], timeout_s=25, pg_options=AUTO):
        assert outcome.error is None, outcome.trace
        assert len(outcome.value) == 2
        assert all("rank 1" in error for error in outcome.value)


def test_a_server_that_dies_also_ends_the_sums_over_the_ring(ranks, figures):
    figures(RING_FOR_LARGE)
    with Network() as network:

        def body(rank):
            dist.all_reduce(torch.ones(100_000))
            dist.barrier()
            if rank == 0:
                os.kill(network.server.pid, signal.SIGKILL)
            for size in itertools.islice(itertools.cycle((100, 100_000)), 1000):
                dist.all_reduce(torch.ones(size))

        options = atp.torch.Options(algorithm="auto", timeout=datetime.timedelta(seconds=3))
        errors_of(ranks.outcomes(2, body, route=network.route, pg_options=options))


def test_a_trained_model_has_the_networks_bits(ranks, figures):
    figures(RING_FOR_LARGE)

    def body(rank):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(50, 400), torch.nn.Linear(400, 3))
        model = DistributedDataParallel(model, bucket_cap_mb=0.01)
        model.register_comm_hook(None, atp.torch.ddp_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(5):
            optimizer.zero_grad()
            loss = model(values(rank + 10 * step, 400).reshape(8, 50)).square().mean()
            loss.backward()
            dist.all_reduce(loss.detach())
            optimizer.step()
        ways = counts() if atp.torch.stats()["choice"] else None
        weights = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
        return weights, ways

    network = ranks.run(2, body, pg_options=atp.torch.Options(algorithm="innetwork"))
    auto = ranks.run(2, body, pg_options=AUTO)
    assert len({weights for weights, _ in network + auto}) == 1
    assert all(in_network > 0 and over_ring > 0 for _, (in_network, over_ring) in auto)


def test_auto_is_the_default(ranks, monkeypatch):
    """With a route there are both ways, without one a ring, and on one host its memory."""

    def body(rank):
        tensor = torch.ones(5000)
        dist.all_reduce(tensor)
        assert torch.equal(tensor, torch.full((5000,), 2.0))
        stats = atp.torch.stats()
        return stats["algorithm"], stats["choice"]["reason"]

    monkeypatch.setenv("ATP_ALGORITHM", "")
    both = ranks.run(2, body)
    alone = ranks.run(2, body, route="")
    in_memory = ranks.run(2, body, route="", memory=True)
    assert {algorithm for algorithm, _ in both + in_memory} == {"auto"}
    assert all("according to what the ranks measured" in reason for _, reason in both)
    assert all(reason.startswith("over a ring: ") for _, reason in alone)
    assert all(reason.startswith("the host's memory: ") for _, reason in in_memory)


def test_a_short_program_learns_which_way_is_faster(ranks, figures):
    """The figures are wrong by less than a factor of two; eight sums are enough to see that."""
    figures("innetwork=1e-3,1e-8;ring=1.5e-3,0.9e-8")

    def body(rank):
        for _ in range(20):
            dist.all_reduce(torch.ones(1000))
        return atp.torch.stats()["choice"]

    first, *others = ranks.run(2, body, pg_options=AUTO)
    assert others == [first]
    assert first["trials"] >= 2 and first["judgements"] >= 2
    assert first["innetwork"] >= 2 and first["ring"] >= 2
