"""Jobs that are not alike on one switch: one that ignores collisions, a large one, an urgent one.

    .venv/bin/python -m experiments.sharing.neighbours [FOLDER]

Jobs that never pause, with congestion control and windows of at most 128 packets:

* deaf: one of four jobs of eight workers ignores collisions. What does each other job keep?
* sizes: jobs of 2 and of 16 workers. What does each get, beside a static partition?
* weights: a short job comes beside three long ones. How soon is it done with a weight of 1 and 4?

Writes deaf.csv, sizes.csv and weights.csv, with a picture of each, into FOLDER (default:
out/sharing). Every sum is checked.
"""

from experiments import report
from experiments.report import jain, plt
from experiments.sharing import contest
from experiments.sharing.contest import (
    SCHEMES,
    congestion_control,
    goodput_together,
    mean_and_span,
    play_all,
    sharing,
)

WINDOW = 128
FRAGMENTS = 16  # of an operation, so that each job's speed is known at any time
IN_FLIGHT = 32
OPERATIONS = 900
SEEDS = [1, 2, 3, 4, 5]

# Which of our rules defends the others: with both, without the part, without the room; and what no
# switch can do better, since with regions of their own they share nothing but the server's link.
RULES = {
    "ours": {},
    "regions": {"partition": True},
    "no part": {"first_come": True},
    "paper": contest.PAPER,
}


def measure_deaf(aggregators_list, operations, seeds=(1,)):
    """What the other jobs keep of their goodput beside four jobs that all listen."""

    def options_of(case, room):
        options = {
            "jobs": 4,
            "workers": 8,
            "aggregators": case["aggregators"],
            "fragments": FRAGMENTS,
            "in_flight": IN_FLIGHT,
            "operations": operations,
            "seed": case["seed"],
        }
        alike = {} if case["rules"] == "paper" else {"room": room}
        return congestion_control({**options, **RULES[case["rules"]], **alike}, WINDOW)

    cases = [
        {"aggregators": n, "rules": rules, "seed": seed}
        for n in aggregators_list
        for rules in RULES
        for seed in seeds
    ]
    results = play_all([options_of(case, room) for case in cases for room in ("1", "0,1")])
    rows = []
    for case, alike, beside in zip(cases, results[::2], results[1::2], strict=True):
        share = sum(goodput_together(alike, FRAGMENTS)) / 4
        deaf, *others = (one / share for one in goodput_together(beside, FRAGMENTS))
        rows.append(
            {**case, "share_gbit": round(share, 2), "deaf": round(deaf, 3),
             "others": round(sum(others) / 3, 3), "others_gbit": round(sum(others) / 3 * share, 2),
             "least_other": round(min(others), 3)}
        )  # fmt: skip
    return rows


def measure_sizes(aggregators_list, operations, seeds=(1,)):
    """What jobs of 2 and of 16 workers get, as parts of the static partition's goodput."""
    cases = [{"aggregators": n, "seed": seed} for n in aggregators_list for seed in seeds]
    options = [
        sharing(
            scheme,
            {"jobs": 2, "workers": "2,16", "fragments": FRAGMENTS, "in_flight": IN_FLIGHT,
             "operations": operations, **case},
            WINDOW,
        )
        for case in cases
        for scheme in SCHEMES
    ]  # fmt: skip
    results = iter(play_all(options))
    rows = []
    for case in cases:
        goodput = {scheme: goodput_together(next(results), FRAGMENTS) for scheme in SCHEMES}
        small, large = goodput["static"]
        rows += [
            {**case, "scheme": scheme, "of_2": round(two / small, 3),
             "of_16": round(sixteen / large, 3),
             "together": round((two + sixteen) / (small + large), 3),
             "jain": round(jain([two, sixteen]), 3)}
            for scheme, (two, sixteen) in goodput.items()
        ]  # fmt: skip
    return rows


LATE_US = 300
WEIGHTS = {"weight 1": "1", "weight 4": "4,1", "alone": None}


def measure_weights(aggregators_list, operations, seeds=(1,)):
    """How long a short job takes, and what three long ones do per millisecond meanwhile."""

    def options_of(case):
        alone = case["who"] == "alone"
        options = {
            "jobs": 1 if alone else 4,
            "workers": 8,
            "aggregators": case["aggregators"],
            "fragments": FRAGMENTS,
            "in_flight": IN_FLIGHT,
            "operations": f"{operations},{6 * operations}",
            "late": f"{LATE_US},0",
            "seed": case["seed"],
        }
        weights = {} if alone else {"weights": WEIGHTS[case["who"]]}
        return congestion_control({**options, **weights}, WINDOW)

    cases = [
        {"aggregators": n, "who": who, "seed": seed}
        for n in aggregators_list
        for who in WEIGHTS
        for seed in seeds
    ]
    rows = []
    for case, result in zip(cases, play_all([options_of(c) for c in cases]), strict=True):
        short, *long = ([ps / 1e6 for ps in job] for job in result["completed_ps"])
        meanwhile = [sum(LATE_US < us <= short[-1] for us in job) for job in long]
        gbit = FRAGMENTS * 62 * 32 / 1000 / (short[-1] - LATE_US)
        rows.append(
            {**case, "short_us": round(short[-1] - LATE_US),
             "short_gbit": round(len(short) * gbit, 2),
             "each_long_gbit": round(sum(meanwhile) / max(1, len(long)) * gbit, 2)}
        )  # fmt: skip
    return rows


def table(rows, by, columns):
    """The mean of the seeds, the least and the most."""
    lines = ["  ".join([*(f"{name:>12}" for name in by), *(f"{name:>24}" for name in columns)])]
    for key in dict.fromkeys(tuple(row[name] for name in by) for row in rows):
        here = [row for row in rows if tuple(row[name] for name in by) == key]
        spans = [mean_and_span([row[name] for row in here]) for name in columns]
        lines.append("  ".join([*(f"{k:>12}" for k in key), *(f"{s:>24}" for s in spans)]))
    return "\n".join(lines)


def plot(rows, series, column, label):
    """A line per value of `series` against the number of aggregators: the mean of the seeds."""
    figure, axes = plt.subplots(figsize=(5.6, 3.4), layout="constrained")
    counts = sorted({row["aggregators"] for row in rows}, reverse=True)
    for name in dict.fromkeys(row[series] for row in rows):
        found = [
            [r[column] for r in rows if (r[series], r["aggregators"]) == (name, n)] for n in counts
        ]
        axes.plot([str(n) for n in counts], [sum(f) / len(f) for f in found], "o-", label=name)
    axes.set(xlabel="aggregators", ylabel=label, ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


EXPERIMENTS = {
    "deaf": (
        measure_deaf, [512, 256, 128, 64], OPERATIONS, "rules",
        ["share_gbit", "deaf", "others_gbit", "others", "least_other"],
        "the other jobs, of their share",
    ),
    "sizes": (
        measure_sizes, [256, 128, 64, 32], OPERATIONS, "scheme",
        ["of_2", "of_16", "together", "jain"],
        "job of 16 workers, of static's goodput",
    ),
    "weights": (
        measure_weights, [256, 128, 64], 400, "who", ["short_us", "short_gbit", "each_long_gbit"],
        "µs that the short job takes",
    ),
}  # fmt: skip
PICTURED = {"deaf": "others", "sizes": "of_16", "weights": "short_us"}


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    for name, (measure, counts, operations, series, columns, label) in EXPERIMENTS.items():
        rows = measure(counts, operations, SEEDS)
        print(f"{name}:\n{table(rows, ['aggregators', series], columns)}")
        report.publish(f"{folder}/{name}", rows, plot(rows, series, PICTURED[name], label))


if __name__ == "__main__":
    main()
