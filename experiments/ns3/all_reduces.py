"""All-reduces of the product's nodes, beside the same rules of the protocol over ns-3's links.

Our side is a contest (experiments/sharing): workers, switches and server are the product's. On
ns-3's side (peer/all_reduce.cc) links and queues are ns-3's, and the rules are stated again.
"""

import json

from experiments.ns3.comparison import Comparison, at_once, compare_runs, run_peer
from experiments.sharing import contest

# What both sides are told.
DEFAULTS = {
    "jobs": 1,
    "workers": 8,
    "racks": 1,
    "levels": 2,
    "window": 64,
    "fragments": 256,
    "operations": 12,
    "in_flight": 4,
    "values": 62,
    "aimd": 0,
    "stagger": 3.7,
    "delay": 1,
    "host_ns": 18,
    "server_gbit": 100,
    "rack_gbit": 0,
    "queue_bytes": 0,
    "ecn_bytes": 0,
}

UNCONGESTED = {
    "1 worker, 1 packet in flight": {"workers": 1, "window": 1},
    "1 worker, 4 packets in flight": {"workers": 1, "window": 4},
    "8 workers, a switch sums": {},
    "8 workers, the server sums": {"levels": 0},
    "8 workers, packets of 1,554 bytes": {"values": 360},
    # With slower links, JOINs from two racks arrive at the third in the same picosecond.
    "6 workers in 3 racks, two levels sum": {"workers": 6, "racks": 3, "rack_gbit": 64},
    "6 workers in 3 racks, one level sums": {"workers": 6, "racks": 3, "levels": 1},
    "3 jobs of 4 workers, one server": {"workers": 4, "jobs": 3},
}

# Queues mark, and the workers' windows follow: AIMD. The marking threshold is a whole
# number of packets, because ns-3's queues do not count the unsent part of a packet.
PACKET = 62 * 4 + 48 + 66
AIMD = {"aimd": 1, "host_ns": 0, "window": 256, "ecn_bytes": 110 * PACKET, "operations": 100}
FOUR_JOBS = {"workers": 2, "jobs": 4}
# A byte takes 81 ps on the server's link and 80 ps on the others. So hardly any packet arrives at
# the picosecond at which another leaves, which ns-3 would still count and the simulator would not.
UNTIED = {"server_gbit": 98.765432098}
MARKED = {
    "8 workers, the server sums": {"levels": 0},
    "8 workers, the server sums, marks from 109 kB on": {"levels": 0, "ecn_bytes": 300 * PACKET},
    "8 workers in 2 racks, 25 Gbit/s between them": {"racks": 2, "rack_gbit": 25},
    "4 jobs of 2 workers, one server": FOUR_JOBS,
    "the same, starts 2.3 µs apart": FOUR_JOBS | {"stagger": 2.3},
    "the same, starts 8.9 µs apart": FOUR_JOBS | {"stagger": 8.9},
    "8 workers, the server sums, 18 ns per packet": {"levels": 0, "host_ns": 18},
    "4 jobs of 2 workers, 18 ns per packet": FOUR_JOBS | {"host_ns": 18},
}
# Where ties decide which of several jobs gets a mark. Jobs that start at other times are to these
# what seeds are to random traffic.
STARTS = [{"stagger": us} for us in (2.3, 3.7, 5.1, 8.9)]
TIED = {
    "8 workers, the server sums": ({"levels": 0}, [{}]),
    "4 jobs of 2 workers, one server": (FOUR_JOBS, STARTS),
    "the same, marks from 109 kB on, few ties": (
        FOUR_JOBS | UNTIED | {"ecn_bytes": 300 * PACKET, "window": 512},
        [{}],
    ),
}
BOUNDS = {"sums, Gbit/s": 0.02, "all jobs done, µs": 0.02, "marked answers per fragment": 0.02}


def play_both(options):
    options = DEFAULTS | options
    # A region of aggregators per job, and an aggregator per sequence: nothing collides, and so
    # where a fragment is summed does not depend on a hash, which ns-3's side does not have.
    # The peer has no room: it takes no aggregator that another job could use.
    placed = {
        "placement": "linear",
        "partition": True,
        "aggregators": 1024 * options["jobs"],
        "room": 0,
    }
    ours, theirs = at_once(
        lambda: contest.play(options | placed | {"aimd": bool(options["aimd"])}),
        lambda: json.loads(run_peer("all_reduce", options)),
    )
    if ours["collisions"] or ours["repeats"] or theirs["lost"]:
        raise RuntimeError(f"packets collided or were lost, which is not compared: {options}")
    theirs["marked"] /= theirs["fragments"]
    return ours, theirs


def without_congestion():
    for scenario, options in UNCONGESTED.items():
        yield from compare_sums(scenario, *play_both(options))


def with_marks():
    for scenario, options in MARKED.items():
        ours, theirs = play_both(AIMD | UNTIED | options)
        yield from compare_sums(scenario, ours, theirs)
        for what, name in (("marked answers per fragment", "marked"), ("cuts", "window_cuts")):
            yield Comparison(scenario, what, (ours[name],), (theirs[name],))


def compare_sums(scenario, ours, theirs):
    """When each job had each sum."""
    pairs = [
        pair
        for jobs in zip(ours["completed_ps"], theirs["completed_ps"], strict=True)
        for pair in zip(*jobs, strict=True)
    ]
    last = [(max(of_side) / 1000,) for of_side in zip(*pairs, strict=True)]
    yield Comparison(scenario, "last sum, ns", *last)
    equal = sum(mine == other for mine, other in pairs)
    yield Comparison(scenario, "sums at the same picosecond", (equal,), (len(pairs),))


def with_ties():
    for scenario, (options, variants) in TIED.items():
        runs = [
            [figures(side) for side in play_both(AIMD | options | variant)] for variant in variants
        ]
        yield from compare_runs(scenario, runs, BOUNDS)


def figures(side):
    return {
        "sums, Gbit/s": goodput(side["completed_ps"]),
        "all jobs done, µs": max(times[-1] for times in side["completed_ps"]) / 1e6,
        "marked answers per fragment": side["marked"],
    }


def goodput(completed_ps):
    """Of all jobs, from when each has done a third of its operations until the first is done."""
    begin = max(times[len(times) // 3 - 1] for times in completed_ps)
    end = min(times[-1] for times in completed_ps)
    operations = sum(begin < time <= end for times in completed_ps for time in times)
    return operations * 32 * DEFAULTS["values"] * DEFAULTS["fragments"] * 1000 / (end - begin)
