"""The in-network paper's figures of jobs that share a switch, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, summary
from experiments.papers.sweep import COLUMNS, HOSTS, lines, over_seeds
from experiments.sharing import fig14
from experiments.sharing.contest import congestion_control, papers_rules, static_partition

# Fig. 13a ----------------------------------------------------------------------------------------

PEAK = 384
SHARING = {
    "ours": "ours, static's window at 100 %",
    "equal": "ours, static's window at each point",
    "paper": "the paper's rules, static's window at 100 %",
    "paper equal": "the paper's rules, static's window at each point",
    "static": "static partition",
}


def figure_13a(size):
    def options_of(aggregators, scheme):
        options = {
            "jobs": 3,
            "workers": 8,
            "aggregators": aggregators,
            "fragments": 1024,
            "operations": size.of(18, 120),
            "compute": 400,
        }
        static = static_partition(options, 3)
        if scheme == "static":
            return static
        window = static["window"] if scheme.endswith("equal") else PEAK // 3
        return (papers_rules if scheme.startswith("paper") else congestion_control)(options, window)

    counts = [PEAK, PEAK // 2, *size.of([], [PEAK // 3]), PEAK // 4]
    cases = [{"aggregators": n, "scheme": s} for n in counts for s in SHARING]
    table = summary(over_seeds(size, cases, options_of), ["aggregators", "scheme"], COLUMNS)
    at = {(row["scheme"], row["aggregators"]): row["goodput_gbit"] for row in table}
    full, half, quarter = PEAK, PEAK // 2, PEAK // 4

    def over(scheme, n, other="static"):
        return at[scheme, n] / at[other, n]

    by_part = "; ".join(
        f"{n / full:.0%}: {over('ours', n):.2f} and {over('equal', n):.2f}, "
        f"{over('paper', n):.2f} and {over('paper equal', n):.2f}"
        for n in counts
    )
    jains = [row["jain_least"] for row in table if row["scheme"] == "ours"]
    return Outcome(
        "Goodput over static sharing's, ours with its own window and with static's, then the "
        f"paper's rules likewise, by the share of aggregators: {by_part}. With half of them ours "
        f"loses {1 - at['ours', half] / at['ours', full]:.1%} of its own goodput, and the paper's "
        f"rules {1 - at['paper', half] / at['paper', full]:.1%}. Jain's index of ours is at least "
        f"{min(jains):.3f}.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "goodput of dynamic sharing, divided by static sharing's, "
                "with 100 % of the aggregators",
                over("ours", full),
                0.97,
                1.03,
            ),
            Check(
                "goodput of dynamic sharing with half of the aggregators, "
                "divided by that with 100 %",
                at["ours", half] / at["ours", full],
                0.9,
                1.02,
            ),
            Check(
                "goodput of dynamic sharing, divided by static sharing's, "
                "with a quarter of the aggregators",
                over("ours", quarter),
                1.03,
                1.5,
            ),
            Check("the same with static's window", over("equal", quarter), 0.9, 1.2),
            Check(
                "goodput of ours, divided by that of the paper's rules, "
                "with a quarter of the aggregators",
                over("ours", quarter, "paper"),
                1.05,
            ),
        ],
        lines(
            table,
            "aggregators",
            SHARING,
            "aggregators",
            invert=True,
            paper=(
                ([half, half], [0.9 * at["ours", full], 0.95 * at["ours", full]]),
                "paper: 90 to 95 % of 100 %",
            ),
        ),
    )


# Fig. 14 -----------------------------------------------------------------------------------------

OWN = {
    "own": "ours, windows of 128, congestion control",
    "paper own": "the paper's rules, likewise",
}
PLACEMENTS = {**fig14.SCHEMES, **OWN}


def figure_14(size):
    operations = size.of(20, 60)

    def options_of(jobs, scheme):
        if scheme in OWN:
            rules = congestion_control if scheme == "own" else papers_rules
            return rules(fig14.options_of(jobs, "ours", operations=operations), 128)
        return fig14.options_of(jobs, scheme, operations=operations)

    cases = [{"jobs": n, "scheme": s} for n in size.of([1, 8], [1, 2, 4, 8]) for s in PLACEMENTS]
    table = summary(over_seeds(size, cases, options_of), ["jobs", "scheme"], COLUMNS)
    at = {row["scheme"]: row["goodput_gbit"] for row in table if row["jobs"] == 8}

    def check(scheme, other, words, low, high):
        return Check(f"goodput of {words}, with 8 jobs", at[scheme] / at[other], low, high)

    return Outcome(
        f"With 8 jobs ours reaches {at['ours'] / at['static']:.0%} of the static partition's "
        f"goodput ({at['own'] / at['static']:.0%} with windows of 128 and congestion control, and "
        f"by the paper's rules then {at['paper own'] / at['static']:.0%}). With one place, as in "
        f"the paper, rehash reaches {at['rehash'] / at['static']:.0%}, hash without rehash "
        f"{at['hash'] / at['static']:.0%}, and linear placement "
        f"{at['linear'] / at['static']:.0%}.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            check("ours", "static", "ours, divided by the static partition's",
                  size.of(0.93, 0.97), 1.03),
            check("own", "static", "ours with windows of 128, divided by the static partition's",
                  0.9, 1.05),
            check("rehash", "static", "one place and rehash, divided by the static partition's",
                  0.75, 1.03),
            check("linear", "rehash", "one place, linear placement, divided by rehash's", 0, 0.6),
            check("hash", "rehash", "one place without rehash, divided by rehash's", 0, 0.8),
        ],
        lines(table, "jobs", PLACEMENTS, "jobs"),
    )  # fmt: skip


ENTRIES = [
    Entry(
        "13a",
        "Fig. 13a, §5.4.1: dynamic and static sharing",
        "Three VGG16 jobs (§5.1: of eight workers) share 1,980 aggregators (100 %) down to 660 "
        "(33 %). At 100 % dynamic and static sharing are equally fast. At 50 % dynamic sharing "
        "loses 5 to 10 %. Under heavy contention it is 38 % better than static sharing.",
        State.SIMULATED,
        "A round trip is ten times shorter here, so ten times fewer aggregators fill a link, and "
        "timers are scaled to it. Little can be gained: with all aggregators a static partition is "
        "only 1.16 times as fast as with a quarter of them. With static's window both are equally "
        "fast: ours gains by a larger window, for which it finds room while others pause. A window "
        "is a power of two, so with 33 % a static job uses 32 of its 42 aggregators. By the "
        "paper's rules a job of eight workers loses, because a fragment that collides crosses the "
        "server's link eight times.",
        HOSTS + ", AIMD. Three jobs of eight workers pause for 200 to 600 µs between sums of 248 "
        "KiB. *The paper's rules* are `sharing_contest --paper`: one aggregator for a fragment, "
        "first come, first served, and no room (docs/inside/protocol §5, *Room*); a mark halves "
        "the window, and repeats are the paper's (*Loss*, rules 12 and 13).",
        "at 100 % and 50 % yes, and better; better than static under contention yes, but not by "
        "38 %; by the paper's own rules not at eight workers. Of 2, 4, 8 and 16 workers "
        "(docs/results/sharing.md) 16 are the worst, 0.99 at 50 % (paper's rules: 0.77 at 25 %), "
        "and the best is 1.07 at 25 % (1.12 at 33 %, where a static partition leaves a quarter of "
        "its aggregators unused)",
        figure_13a,
    ),
    Entry(
        "14",
        "Fig. 14, §5.4.2: placement",
        "One to eight jobs that only sum have 100 % of the aggregators. Hashing is about as good "
        "as a static partition, and far better than linear placement. The paper shows bars "
        "without numbers.",
        State.SIMULATED,
        "The order is the paper's. Hash without rehash is our addition, to show what rehash adds.",
        HOSTS + " and 512 aggregators. Jobs of eight workers have equal fixed windows in all "
        "schemes but two: 512 / jobs packets, but at most 200. Ours keeps its room even so.",
        "yes",
        figure_14,
    ),
]
