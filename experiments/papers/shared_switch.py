"""The in-network paper's figures of jobs that share a switch, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, summary
from experiments.papers.sweep import COLUMNS, HOSTS, LINE_GBIT, bars, lines, over_seeds, triple
from experiments.sharing import fig14
from experiments.sharing.contest import (
    SCHEMES,
    congestion_control,
    papers_rules,
    play_all,
    sharing,
    static_partition,
)

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
            "operations": size.of(18, 60),
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

PLACEMENTS = {**fig14.SCHEMES, "own": "ours, windows of 128, congestion control"}


def figure_14(size):
    operations = size.of(20, 60)

    def options_of(jobs, scheme):
        if scheme == "own":
            return congestion_control(fig14.options_of(jobs, "ours", operations=operations), 128)
        return fig14.options_of(jobs, scheme, operations=operations)

    cases = [{"jobs": n, "scheme": s} for n in size.of([1, 8], [1, 2, 4, 8]) for s in PLACEMENTS]
    table = summary(over_seeds(size, cases, options_of), ["jobs", "scheme"], COLUMNS)
    at = {row["scheme"]: row["goodput_gbit"] for row in table if row["jobs"] == 8}

    def check(scheme, other, words, low, high):
        return Check(f"goodput of {words}, with 8 jobs", at[scheme] / at[other], low, high)

    return Outcome(
        f"With 8 jobs ours reaches {at['ours'] / at['static']:.0%} of the static partition's "
        f"goodput ({at['own'] / at['static']:.0%} with windows of 128). With one place, as in the "
        f"paper, rehash reaches {at['rehash'] / at['static']:.0%}, hash without rehash "
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


# Fig. 20 -----------------------------------------------------------------------------------------

VGG = (2232, 191)  # fragments, and µs of computing, of 1/1000 of an iteration of 32 images
RESNET = (412, 118)
PAIRS = {
    "VGG16 3 + VGG16 3": ((3, VGG), (3, VGG)),
    "VGG16 5 + VGG16 2": ((5, VGG), (2, VGG)),
    "VGG16 3 + ResNet50 3": ((3, VGG), (3, RESNET)),
}


def job_pair(first, second):
    (w1, (f1, c1)), (w2, (f2, c2)) = first, second
    return {"jobs": 2, "workers": f"{w1},{w2}", "fragments": f"{f1},{f2}", "compute": f"{c1},{c2}"}


def possible_gbit(fragments, compute_us):
    """Of a job alone that computes, then sums at the host's full speed."""
    kbit = fragments * 62 * 32 / 1000
    return kbit / (compute_us + kbit / LINE_GBIT)


def kept_rows(size, pair, scheme):
    """What each job of a pair keeps of the speed that it has alone, by the same rules."""
    first, second = PAIRS[pair]
    common = {"aggregators": 512, "operations": size.of(18, 60)}
    rows = []
    for seed in size.seeds:
        alone = [
            sharing(scheme, {**common, "jobs": 1, "workers": w, "fragments": f, "compute": c}, 256)
            for w, (f, c) in (first, second)
        ]
        pair_options = sharing(scheme, {**common, **job_pair(first, second)}, 256)
        together, *alone = play_all([{**o, "seed": seed} for o in (pair_options, *alone)])
        for index, (one, (_, model)) in enumerate(zip(alone, (first, second), strict=True)):
            rows.append(
                {
                    "pair": pair,
                    "scheme": scheme,
                    "job": index + 1,
                    "seed": seed,
                    "kept": together["goodput"][index] / one["goodput"][0],
                    "alone": one["goodput"][0] / possible_gbit(*model),
                }
            )
    return rows


def figure_20(size):
    rows = [row for pair in PAIRS for scheme in SCHEMES for row in kept_rows(size, pair, scheme)]
    table = summary(rows, ["pair", "scheme", "job"], ["kept", "alone"])
    all_at = {(row["pair"], row["scheme"], row["job"]): row["kept"] for row in table}
    ours = [row for row in table if row["scheme"] == "ours"]
    at = {(row["pair"], row["job"]): row["kept"] for row in ours}
    equal, uneven, _ = PAIRS
    names = [
        row["pair"].split(" + ")[row["job"] - 1] + f"\nof pair {'abc'[i // 2]}"
        for i, row in enumerate(ours)
    ]
    figure = bars(
        names,
        [triple(r, "kept") for r in ours],
        [0.9, 0.9, None, None, 0.95, 0.9],
        "throughput relative to alone",
    )
    figure.axes[0].tick_params(axis="x", labelsize=7)

    def kept(pair, scheme):
        return f"{all_at[pair, scheme, 1]:.0%} and {all_at[pair, scheme, 2]:.0%}"

    return Outcome(
        "Throughput relative to running alone (the number after a model is its number of workers), "
        "with ours, the paper's rules and a static partition: "
        + "; ".join(f"{pair}: " + ", ".join(kept(pair, s) for s in SCHEMES) for pair in PAIRS)
        + ".",
        table,
        largest_spread(table, "kept"),
        [
            Check(
                "throughput of one of two equal jobs, divided by the other's",
                at[equal, 1] / at[equal, 2],
                0.85,
                1.18,
            ),
            Check(
                "throughput of one of two equal jobs, divided by that of the job alone",
                at[equal, 1],
                0.7,
                1.02,
            ),
            Check(
                "what one of two equal jobs keeps of its throughput, divided by what it keeps with "
                "a static partition",
                at[equal, 1] / all_at[equal, "static", 1],
                0.98,
                1.3,
            ),
            Check(
                "what the job of 5 workers keeps of its throughput, "
                "divided by what that of 2 keeps",
                at[uneven, 1] / at[uneven, 2],
                0.8,
                1.1,
            ),
            Check(
                "the least goodput of a job alone, divided by that of one that computes, "
                "then sums at a host's full speed",
                min(row["alone_least"] for row in ours),
                0.85,
                1.1,
            ),
        ],
        figure,
    )


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
        "first come, first served, and no room (docs/protocol.md §5, *Room*); a mark halves the "
        "window, and repeats are the paper's (*Loss*, rules 12 and 13).",
        "at 100 % and 50 % yes, and better; better than static under contention yes, but not by "
        "38 %; by the paper's own rules not at eight workers. Of 2, 4, 8 and 16 workers "
        "(docs/sharing.md) 16 are the worst, 0.98 at 50 % (paper's rules: 0.80 at 25 %), and the "
        "best is 1.12 at 33 %",
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
        "schemes but one: 512 / jobs packets, but at most 200.",
        "yes",
        figure_14,
    ),
    Entry(
        "20",
        "Fig. 20, §D.2: two training jobs on one switch",
        "Two VGG16 jobs of three workers lose 10 % each. With five and two workers they train "
        "145.6 and 159.3 images per second. VGG16 and ResNet50 lose 5 % and 10 %.",
        State.SIMULATED,
        "Our jobs do not sum one layer while they compute another. Their pauses vary, so they "
        "drift in and out of step.",
        HOSTS + ", AIMD, 1/1000 of a model per iteration, and the published compute times of an "
        "RTX 2080 Ti.",
        "roughly yes",
        figure_20,
    ),
]
