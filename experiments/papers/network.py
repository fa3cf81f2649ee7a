"""The in-network paper's figures of levels, links and congestion, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, summary
from experiments.papers.sweep import COLUMNS, HOSTS, LINE_GBIT, bars, lines, over_seeds, triple
from experiments.sharing.contest import PAPER, SCHEMES, sharing, static_partition

# Fig. 9 ------------------------------------------------------------------------------------------

LEVELS = {2: "two levels (ATP)", 1: "rack-scale", 0: "no switch"}


def figure_9(size):
    def options_of(levels):
        return {
            "jobs": 1,
            "workers": 6,
            "racks": 3,
            "levels": levels,
            "aggregators": 512,
            "window": 128,
            "operations": size.of(12, 40),
        }

    rows = over_seeds(size, [{"levels": n} for n in LEVELS], options_of)
    table = summary(rows, ["levels"], COLUMNS)
    at = {row["levels"]: row["packets_to_server"] for row in table}
    return Outcome(
        f"Packets at the server per fragment: {at[2]:.3f} with two levels, {at[1]:.3f} with "
        f"aggregation at rack scale, {at[0]:.3f} without a switch. Two levels save "
        f"{1 - at[2] / at[1]:.1%} of the packets that aggregation at rack scale sends to the "
        "server.",
        table,
        largest_spread(table, "packets_to_server"),
        [
            Check(
                "packets to the server with aggregation at rack scale, "
                "divided by those with two levels",
                at[1] / at[2],
                2.9,
                3.1,
            ),
            Check(
                "packets to the server without a switch, divided by those with two levels",
                at[0] / at[2],
                5.8,
                6.2,
            ),
        ],
        bars(
            list(LEVELS.values()),
            [triple(r, "packets_to_server") for r in table],
            [1, 3, None],
            "packets to the server per fragment",
        ),
    )


# Fig. 12 -----------------------------------------------------------------------------------------


OWN = {"ours own": "ours", "paper own": "paper"}  # with congestion control


def figure_12(size):
    def options_of(jobs, scheme):
        options = {
            "jobs": jobs,
            "workers": 3,
            "racks": 2,
            "rack_gbit": 100,
            "aggregators": 1024,
            "window": 256,
            "operations": size.of(20, 80),
        }
        if scheme in OWN:
            return sharing(OWN[scheme], options, options["window"])
        if scheme == "static":
            return static_partition(options, jobs)
        return options if scheme == "ours" else {**options, **PAPER}

    cases = [{"jobs": jobs, "scheme": scheme} for jobs in (1, 2) for scheme in (*SCHEMES, *OWN)]
    table = summary(over_seeds(size, cases, options_of), ["jobs", "scheme"], COLUMNS)
    at = {(row["jobs"], row["scheme"]): row for row in table}
    alone, both, own = at[1, "ours"], at[2, "ours"], at[2, "ours own"]
    ring = 100 / 2 / (2 * 2 / 3)  # two rings over the shared link, 4/3 of a tensor each
    ours = both["goodput_gbit"] / 2
    return Outcome(
        f"Each of two jobs gets {ours:.1f} Gbit/s of sums, and Jain's index is at least "
        f"{both['jain_least']:.4f}. One job alone gets {alone['goodput_gbit']:.1f}. By the paper's "
        f"rules each gets {at[2, 'paper']['goodput_gbit'] / 2:.1f}, with a static partition "
        f"{at[2, 'static']['goodput_gbit'] / 2:.1f}. With windows of their own (congestion "
        f"control) each gets {own['goodput_gbit'] / 2:.1f} by ours (Jain's index at least "
        f"{own['jain_least']:.4f}) and {at[2, 'paper own']['goodput_gbit'] / 2:.1f} by the paper's "
        "rules. Two rings at the link's full rate would get "
        f"{ring:.1f} each, so a job gets {ours / ring:.2f} times that bound.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check("Jain's index of the two jobs", both["jain_least"], 0.98, 1),
            Check(
                "goodput of one job alone, divided by that of one of two",
                alone["goodput_gbit"] / ours,
                1.5,
                2.5,
            ),
            Check(
                "goodput of both jobs, divided by what a host can receive",
                both["goodput_gbit"] / LINE_GBIT,
                0.95,
                1.02,
            ),
            Check(
                "the same with windows of their own",
                own["goodput_gbit"] / LINE_GBIT,
                0.95,
                1.02,
            ),
        ],
        bars(
            [
                "one job alone",
                "each of two",
                "the paper's rules",
                "static partition",
                "own windows",
            ],
            [triple(alone)]
            + [tuple(v / 2 for v in triple(at[2, scheme])) for scheme in (*SCHEMES, "ours own")],
        ),
    )


# Fig. 15 -----------------------------------------------------------------------------------------

AIMD = {"aimd": True, "ecn_bytes": 65_000}
POLICIES = {
    "aimd": (AIMD, "ours, with congestion control"),
    "fixed": ({"room": 0}, "ours, without, and so without a room"),
    "room": ({}, "ours, with the room alone"),
    "paper": ({**PAPER, **AIMD}, "the paper's rules, with congestion control"),
    "paper fixed": (PAPER, "the paper's rules, without"),
    "static": ({**PAPER, "placement": "linear"}, "static pool, window of 64"),
}


def figure_15(size):
    def options_of(window, scheme):
        return {
            "jobs": 1,
            "workers": 8,
            "aggregators": 100,
            "window": 64 if scheme == "static" else window,
            "fragments": 4096,
            "queue_bytes": 200_000,
            "server_gbit": 60,
            "operations": size.of(4, 12),
            **POLICIES[scheme][0],
        }

    windows = size.of([64, 1024], [64, 128, 256, 512, 1024])
    cases = [{"window": w, "scheme": s} for w in windows for s in POLICIES]
    table = summary(over_seeds(size, cases, options_of), ["window", "scheme"], COLUMNS)
    at = {(row["window"], row["scheme"]): row["goodput_gbit"] for row in table}
    repeats = {(row["window"], row["scheme"]): row["repeats_most"] for row in table}

    def by_window(*schemes):
        return "; ".join(
            f"{w:,}: " + ", ".join(f"{at[w, scheme]:.1f}" for scheme in schemes) for w in windows
        )

    best = at[64, "static"]
    worst = min(at[w, "aimd"] for w in windows)
    return Outcome(
        "Gbit/s with congestion control, without it, and with its room alone, by the largest "
        f"window in packets: {by_window('aimd', 'fixed', 'room')}. By the paper's rules with it "
        f"and without: {by_window('paper', 'paper fixed')}. "
        f"A static pool with a window of 64 gets {best:.1f}. At 1,024 congestion control makes the "
        f"paper's rules {at[1024, 'paper'] / at[1024, 'paper fixed']:.1f} times as fast, and ours "
        f"{at[1024, 'aimd'] / at[1024, 'fixed']:.1f} times. Ours reaches at least "
        f"{worst / best:.0%} of the static pool's goodput.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "the paper's rules: goodput with congestion control, divided by that without, "
                "at a largest window of 1,024",
                at[1024, "paper"] / at[1024, "paper fixed"],
                2,
                6,
            ),
            Check(
                "goodput with congestion control, divided by that without, "
                "at a largest window of 1,024",
                at[1024, "aimd"] / at[1024, "fixed"],
                2,
                8,
            ),
            Check(
                "goodput with congestion control, divided by that without, "
                "at a largest window of 64",
                at[64, "aimd"] / at[64, "fixed"],
                0.9,
                1.1,
            ),
            Check(
                "goodput with congestion control, divided by the static pool's, "
                "at the worst largest window",
                worst / best,
                0.93,
                1.05,
            ),
            Check(
                "packets repeated per fragment, with congestion control, at the worst window",
                max(repeats[w, "aimd"] for w in windows),
                0,
                0.02,
            ),
        ],
        lines(
            table,
            "window",
            {scheme: text for scheme, (_, text) in POLICIES.items()},
            "largest window, packets",
        ),
    )


ENTRIES = [
    Entry(
        "9",
        "Fig. 9, §5.2.2: two levels of switches",
        "Six workers are in three racks, and the server is in the third; the switches are Tofino's "
        "software model. Aggregation at rack scale, without a second level, sends the server three "
        "times as many packets as ATP.",
        State.SIMULATED,
        "They do not: both counts are exact.",
        HOSTS + ", one job, and more aggregators than it needs.",
        "yes",
        figure_9,
    ),
    Entry(
        "12",
        "Fig. 12, §5.3.2: two jobs on a dumbbell",
        "Two VGG16 jobs of three workers share one link of 100 Gbit/s between two ends. Over ATP "
        "both jobs take the same time to reach 75 % top-5 accuracy. They are 1.20 times as fast as "
        "over BytePS at its best, and 1.25 times as fast as over Horovod.",
        State.SIMULATED,
        "Our jobs sum without computing, so sharing halves their speed. We compare with a bound, "
        "rings at full rate, and not with Horovod.",
        HOSTS
        + ", with equal fixed windows of 200 packets where nothing else is said, and no training.",
        "equal: yes; speed: only compared with a bound",
        figure_12,
    ),
    Entry(
        "15",
        "Fig. 15, §5.5: congestion control",
        "One VGG16 job of eight workers has half of the aggregators, and its server receives at "
        "60 Gbit/s. With congestion control it gets 7.5 Gbit/s and 66.8 images per second, "
        'without it 0 to 4 Gbit/s and 23.2 images per second ("3X"; that is 2.9 times).',
        State.SIMULATED,
        "The factor depends on the largest window: if it fits the aggregators, both are equally "
        "fast. Our job only sums, and its timers are scaled to the round trip, so a loss costs "
        "1 ms. By the paper's rules of sharing, and with a large maximum, AIMD grows until the "
        "server's queue marks. By then its window exceeds the aggregators, and the rest is summed "
        "at the server (docs/results/congestion.md). By ours a worker has no more in flight than "
        "finds an aggregator, and that room alone does all here.",
        HOSTS + ", 100 aggregators, ports with queues of 200 kB that mark above 65 kB, and a "
        "server with a link of 60 Gbit/s. The largest window is swept. Without congestion control "
        "a window has that size from the start, but never more than 200 packets, the initial size; "
        "ours then has no room either, like a worker with ATP_CONGESTION=none.",
        "yes with a large window, by the paper's rules and by ours",
        figure_15,
    ),
]
