"""The in-network paper's Fig. 20: pairs of training jobs on one switch, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, summary
from experiments.papers.sweep import HOSTS, LINE_GBIT, bars, triple
from experiments.sharing.contest import SCHEMES, play_all, sharing

VGG = (2232, 191)  # fragments, and µs of computing, of 1/1000 of an iteration of 32 images
RESNET = (412, 118)
PAIRS = {
    "VGG16 3 + VGG16 3": ((3, VGG), (3, VGG)),
    "VGG16 5 + VGG16 2": ((5, VGG), (2, VGG)),
    "VGG16 3 + ResNet50 3": ((3, VGG), (3, RESNET)),
}


WINDOW = 256
RULES = {**SCHEMES, "fixed": "ours with fixed windows, as the static partition's"}


def job_pair(first, second):
    (w1, (f1, c1)), (w2, (f2, c2)) = first, second
    return {"jobs": 2, "workers": f"{w1},{w2}", "fragments": f"{f1},{f2}", "compute": f"{c1},{c2}"}


def possible_gbit(fragments, compute_us):
    """Of a job alone that computes, then sums at the host's full speed."""
    kbit = fragments * 62 * 32 / 1000
    return kbit / (compute_us + kbit / LINE_GBIT)


def by_rules(scheme, options):
    return options | {"window": WINDOW} if scheme == "fixed" else sharing(scheme, options, WINDOW)


def kept_rows(size, pair, scheme):
    """What each job of a pair keeps of the speed that it has alone, by the same rules."""
    first, second = PAIRS[pair]
    common = {"aggregators": 512, "operations": size.of(18, 60)}
    rows = []
    for seed in size.seeds:
        alone = [
            by_rules(scheme, {**common, "jobs": 1, "workers": w, "fragments": f, "compute": c})
            for w, (f, c) in (first, second)
        ]
        pair_options = by_rules(scheme, {**common, **job_pair(first, second)})
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
    rows = [row for pair in PAIRS for scheme in RULES for row in kept_rows(size, pair, scheme)]
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
        "with ours, the paper's rules, a static partition, and ours with its fixed windows: "
        + "; ".join(f"{pair}: " + ", ".join(kept(pair, s) for s in RULES) for pair in PAIRS)
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
        "20",
        "Fig. 20, §D.2: two training jobs on one switch",
        "Two VGG16 jobs of three workers lose 10 % each. With five and two workers they train "
        "145.6 and 159.3 images per second. VGG16 and ResNet50 lose 5 % and 10 %.",
        State.SIMULATED,
        "Our jobs do not sum one layer while they compute another. Their pauses vary, so they "
        "drift in and out of step.",
        HOSTS + ", AIMD, 1/1000 of a model per iteration, and the published compute times of an "
        "RTX 2080 Ti.",
        "roughly yes, by any of the rules: they differ by less than the seeds do",
        figure_20,
    ),
]
