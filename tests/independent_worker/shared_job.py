"""A job of the independent worker and ours: their contributions, and the expected results."""

import contextlib
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from tests.e2e.conftest import BUILD

from .packets import ProtocolError

RANK = BUILD / "bin" / "reference_rank"
SPECIALS = [np.nan, np.inf, -np.inf, -0.0, 1e-45, 3e38, -3e38, 0.0]


class Lossy:
    """A UDP socket that loses packets in both directions, the same ones for the same seed."""

    def __init__(self, udp, rate, seed):
        self.udp, self.rate = udp, rate
        self.sending, self.receiving = random.Random(seed), random.Random(seed + 1)
        self.lost = 0
        self.to_lose, self.type_to_lose = 0, None

    def lose_next(self, times, type_):
        """Loses the next packets of this type, in either direction."""
        self.to_lose, self.type_to_lose = times, type_

    def __getattr__(self, name):
        return getattr(self.udp, name)

    def _lose(self, data, source):
        chosen = self.to_lose > 0 and data[1] == self.type_to_lose
        self.to_lose -= chosen
        lose = chosen or source.random() < self.rate
        self.lost += lose
        return lose

    def sendto(self, data, address):
        lost = self._lose(data, self.sending)
        return len(data) if lost else self.udp.sendto(data, address)

    def recvfrom(self, *arguments):
        while True:
            received = self.udp.recvfrom(*arguments)
            if not self._lose(received[0], self.receiving):
                return received


def contribution(rng, type_, count, specials):
    if type_ == "int32":
        return rng.integers(-(2**31), 2**31, count, dtype=np.int32)
    values = (rng.normal(size=count) * 2.0 ** rng.integers(-3, 4, count)).astype(type_)
    for place in rng.integers(0, count, specials):
        values[place] = SPECIALS[place % len(SPECIALS)]
    return values


class SharedJob:
    """The independent worker as one rank, ours as the others, and what all of them contribute.

    `plan` has (type, reduction, lengths of segments, how many values are special, tag) for each
    operation. Without a rank for the independent worker, all ranks are ours.
    """

    def __init__(self, cluster, plan, world_size, rank, route, **environment):
        assert RANK.exists(), f"{RANK} does not exist: run `make test`, which builds it"
        self.cluster, self.plan, self.rank = cluster, plan, rank
        lines = (f"{t} {r} {tag} {' '.join(map(str, s))}\n" for t, r, s, _, tag in plan)
        (cluster.folder / "plan").write_text("".join(lines))
        rng = np.random.default_rng(7)
        self.contributions = [
            [contribution(rng, t, sum(s), specials) for _ in range(world_size)]
            for t, _, s, specials, _ in plan
        ]
        text = ",".join(f"{host}:{port}" for host, port in route)
        self.world_size, self.environment = world_size, {"ATP_ROUTE": text, **environment}
        self.ours = {}
        for other in set(range(world_size)) - {rank}:
            for i, values in enumerate(self.contributions):
                values[other].tofile(cluster.folder / f"{i}.{other}.in")
            self.ours[other] = self._start(other, f"rank{other}")
        self.sums = []

    def _start(self, rank, name):
        command = [RANK, self.cluster.folder]
        return self.cluster.start_rank(
            rank, self.world_size, command, name, ATP_TIMEOUT=60, **self.environment
        )

    def start_again(self, rank):
        """Replaces one of our ranks that has ended, in the same incarnation."""
        return self._start(rank, f"rank{rank}-again")

    def submit(self, worker, steps):
        for i in steps:
            _, reduction, segments, _, tag = self.plan[i]
            values = self.contributions[i][self.rank]
            self.sums.append(worker.submit(values, reduction, segments, tag))

    @contextlib.contextmanager
    def telling(self):
        """A failure in the block also shows what the other ranks printed."""
        try:
            yield
        except ProtocolError as error:
            said = "".join(process.output() for process in self.cluster.processes)
            pytest.fail(f"{error}; the others said:\n{said}")

    def run(self, worker):
        with self.telling():
            worker.join()
            self.submit(worker, range(len(self.plan)))
            worker.wait(15)
            self.finish(worker)

    def finish(self, worker):
        worker.leave()
        for process in self.ours.values():
            assert process.wait(15) == 0, process.output()

    def results_of(self, rank):
        """The results of one of our ranks."""
        files = (self.cluster.folder / f"{i}.{rank}.out" for i in range(len(self.plan)))
        return [np.fromfile(file, step[0]) for file, step in zip(files, self.plan, strict=True)]

    def check(self, bits=30):
        """The same bits on all ranks, and right ones."""
        of_others = {other: self.results_of(other) for other in self.ours}
        for i, (type_, reduction, segments, specials, _) in enumerate(self.plan):
            mine = self.sums[i].result()
            what = f"operation {i}, {reduction} of {segments} {type_}"
            for other, results in of_others.items():
                theirs = results[i]
                places = np.flatnonzero(
                    mine.view(f"u{mine.itemsize}") != theirs.view(f"u{mine.itemsize}")
                )
                assert not len(places), f"{what} differs from rank {other}'s at {places}"
            if bits == 30 or not specials:  # 16 bits lose the neighbours of special values
                check_result(mine, self.contributions[i], reduction, self.sums[i].small, bits, what)


def exact_sum(values):
    """Rounded once, to float32; near a tie a float64 sum would be rounded twice."""
    if not np.isfinite(values).all():
        return values.sum(dtype=np.float32)
    exact = sum(map(Fraction, values.tolist()))
    near = np.float32(math.fsum(values))
    if np.isinf(near):
        return near
    candidates = [
        np.nextafter(near, np.float32(-np.inf)),
        near,
        np.nextafter(near, np.float32(np.inf)),
    ]
    return min(
        (c for c in candidates if np.isfinite(c)),
        key=lambda c: (abs(Fraction(float(c)) - exact), int(c.view(np.int32)) & 1),
    )


def check_result(result, contributions, reduction, small, bits, what):
    """Integers, maxima and small sums exactly, others as closely as the largest value allows."""
    stacked = np.stack(contributions)
    if reduction in ("max", "min"):
        wanted = stacked.max(axis=0) if reduction == "max" else stacked.min(axis=0)
        assert np.array_equal(result, wanted, equal_nan=result.dtype != np.int32), what
        return
    if result.dtype == np.int32:
        assert np.array_equal(result, stacked.sum(axis=0, dtype=np.int32)), what
        return
    ranks = len(contributions)
    with np.errstate(all="ignore"):
        wanted = stacked.sum(axis=0, dtype=np.float64)
        if small:
            wanted = np.array(
                [exact_sum(column) for column in stacked.T.astype(np.float32)], np.float64
            )
        once = wanted.astype(np.float32) / np.float32(ranks if reduction == "avg" else 1)
        wanted /= ranks if reduction == "avg" else 1
        once = once.astype(result.dtype)
    exact = np.full(len(result), small) | ~np.isfinite(once)
    assert np.array_equal(result[exact], once[exact], equal_nan=True), (
        f"{what}: {result[exact]} instead of {once[exact]}"
    )
    largest = np.abs(stacked[np.isfinite(stacked)]).max()
    unit = largest * 2.0 ** (1 + (ranks - 1).bit_length() - bits)
    error = np.abs(result.astype(np.float64)[~exact] - wanted[~exact])
    rounding = 2 * np.finfo(result.dtype).eps * np.abs(wanted[~exact])
    assert (error <= ranks * unit + rounding).all(), what
