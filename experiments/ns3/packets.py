"""Packets that hosts send at random to one of them, over the simulator's network and over ns-3's.

Nothing is stated a second time here: both sides get the list of packets, and report when each
arrived, whether it was marked, and which were lost.
"""

import math
import operator
import random
import statistics
from dataclasses import dataclass

from experiments.ns3.comparison import Comparison, at_once, compare_runs, run, run_peer
from experiments.report import BUILD

SENDERS, PACKETS = 8, 40_000
BYTE_PS, DELAY_NS, AROUND = 80, 1000, 66  # links of 100 Gbit/s
OURS = (296,)  # a packet of 62 values
MIXED = (64, 296, 296, 1434)
SEEDS = range(1, 6)


@dataclass(frozen=True)
class Traffic:
    load: float  # of the receiver's link
    burst: int  # packets that a host sends at once
    sizes: tuple = OURS
    host_ns: int = 0
    queue_bytes: int = 0
    ecn_bytes: int = 0
    gbit: float = 100  # of the receiver's link


def draw(traffic, seed):
    """A line per packet: picoseconds, host, bytes of UDP payload."""
    drawn = random.Random(seed)
    service = (statistics.mean(traffic.sizes) + AROUND) * BYTE_PS + traffic.host_ns * 1000
    gap = service * SENDERS * traffic.burst / traffic.load
    packets = []
    for host in range(SENDERS):
        now = 0.0
        for _ in range(PACKETS // SENDERS // traffic.burst):
            now += drawn.expovariate(1 / gap)
            # Links take multiples of 80 ps, so packets of two hosts never meet at one picosecond,
            # at which each simulator may take either of them first.
            when = int(now) // BYTE_PS * BYTE_PS + host
            packets += [(when, host, drawn.choice(traffic.sizes)) for _ in range(traffic.burst)]
    return sorted(packets, key=lambda packet: packet[0])


@dataclass(frozen=True)
class Fate:
    arrival: int | None  # None: lost
    marked: bool = False


def fates(text):
    """A fate per line of a program's output."""
    words = [line.split() for line in text.splitlines()]
    return [Fate(None) if w == ["lost"] else Fate(int(w[0]), w[1] == "1") for w in words]


def send_both(traffic, packets):
    text = "".join(f"{when} {host} {size}\n" for when, host, size in packets)
    options = {
        "hosts": SENDERS + 1,
        "gbit": traffic.gbit,
        "delay_ns": DELAY_NS,
        "host_ns": traffic.host_ns,
        "queue_bytes": traffic.queue_bytes,
        "ecn_bytes": traffic.ecn_bytes,
    }
    ours, theirs = at_once(
        lambda: run(BUILD / "bin" / "network_arrivals", options, text),
        lambda: run_peer("arrivals", options, text),
    )
    return fates(ours), fates(theirs)


UNCONGESTED = {
    "bursts of 8, load 0.9, packets of 296 bytes": Traffic(0.9, 8),
    "bursts of 8, load 0.9, of 64 to 1,434 bytes": Traffic(0.9, 8, MIXED),
    "the same, hosts that take 18 ns per packet": Traffic(0.9, 8, MIXED, host_ns=18),
}
# Queues of whole packets, and few ties (all_reduces.py): up to 20 packets of 40,000 still arrive
# at the picosecond at which another leaves, and that matters only at a limit.
PACKET = OURS[0] + AROUND
WHOLE = {
    "bursts of 8, load 0.9, queue of 40 packets": Traffic(
        0.9, 8, queue_bytes=40 * PACKET, ecn_bytes=10 * PACKET, gbit=98.765432098
    ),
    "bursts of 64, load 1.2, queue of 180 packets": Traffic(
        1.2, 64, queue_bytes=180 * PACKET, ecn_bytes=55 * PACKET, gbit=98.765432098
    ),
    "the first, hosts that take 18 ns per packet": Traffic(
        0.9, 8, host_ns=18, queue_bytes=40 * PACKET, ecn_bytes=10 * PACKET, gbit=98.765432098
    ),
}


def without_congestion():
    yield from compare_fates(UNCONGESTED, "packets at the same picosecond", 0)


def of_whole_packets():
    yield from compare_fates(WHOLE, "packets with the same fate", 0.0002)


def compare_fates(scenarios, what, bound):
    for name, traffic in scenarios.items():
        runs = [send_both(traffic, draw(traffic, seed)) for seed in SEEDS]
        equal = tuple(sum(map(operator.eq, ours, theirs)) for ours, theirs in runs)
        sent = tuple(len(theirs) for _, theirs in runs)
        yield Comparison(name, what, equal, sent, bound)


DROPPED = {
    "bursts of 8, load 0.9, queue of 15 kB": Traffic(0.9, 8, queue_bytes=15_000, ecn_bytes=4_000),
    "bursts of 64, load 1.2, queue of 65 kB": Traffic(
        1.2, 64, queue_bytes=65_000, ecn_bytes=20_000
    ),
    "the first, hosts that take 18 ns per packet": Traffic(
        0.9, 8, host_ns=18, queue_bytes=15_000, ecn_bytes=4_000
    ),
}


# What is compared without a bound (docs/inside/simulator.md, *Compared with ns-3*).
OTHER_RULES = {
    "packets of 64 to 1,434 bytes, queue of 30 kB": Traffic(
        0.9, 8, MIXED, queue_bytes=30_000, ecn_bytes=8_000
    ),
    "the same, hosts that take 18 ns per packet": Traffic(
        0.9, 8, MIXED, host_ns=18, queue_bytes=30_000, ecn_bytes=8_000
    ),
}

BOUNDS = {
    name: 0.02 for name in ("lost packets", "marked packets", "mean wait, ns", "last arrival, µs")
}
TAIL = "99th percentile of the wait, ns"


def with_losses():
    yield from play(DROPPED, BOUNDS)


def with_other_rules():
    yield from play(OTHER_RULES, dict.fromkeys([*BOUNDS, "lost bytes"], math.inf))


def play(scenarios, bounds):
    for name, traffic in scenarios.items():
        runs, waits = [], ([], [])
        for seed in SEEDS:
            packets = draw(traffic, seed)
            sides = [Outcome(packets, side) for side in send_both(traffic, packets)]
            runs.append([side.figures() for side in sides])
            for of_all, side in zip(waits, sides, strict=True):
                of_all += side.waits
        yield from compare_runs(name, runs, bounds)
        tails = [(percentile_99(side) / 1000,) for side in waits]
        yield Comparison(name, TAIL, *tails, max(bounds.values()))


def percentile_99(values):
    return sorted(values)[len(values) * 99 // 100]


class Outcome:
    def __init__(self, packets, side):
        self._packets, self._bytes = len(packets), sum(size for _, _, size in packets)
        self._arrived = [
            (packet, fate)
            for packet, fate in zip(packets, side, strict=True)
            if fate.arrival is not None
        ]
        # How long a packet waits for its host's link and for the receiver's.
        self.waits = [
            fate.arrival - when - 2 * ((size + AROUND) * BYTE_PS + DELAY_NS * 1000)
            for (when, _, size), fate in self._arrived
        ]

    def figures(self):
        return {
            "lost packets": self._packets - len(self._arrived),
            "marked packets": sum(fate.marked for _, fate in self._arrived),
            "mean wait, ns": statistics.mean(self.waits) / 1000,
            "lost bytes": self._bytes - sum(size for (_, _, size), _ in self._arrived),
            "last arrival, µs": max(fate.arrival for _, fate in self._arrived) / 1e6,
        }
