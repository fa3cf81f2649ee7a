"""Jobs that never pause, with plenty to few aggregators (paper Fig. 12 and Fig. 13a).

    .venv/bin/python -m experiments.sharing.few_aggregators [FOLDER]

Two and ten jobs of eight workers. Nothing can be gained by sharing here: no job ever leaves
aggregators to another, and a fragment without one crosses the server's link eight times. Compares
ours and the paper's rules, both with congestion control, with a static partition, and takes ours
apart: what does each of its rules do alone? Prints goodput and Jain's index; writes
few-aggregators.csv and .svg into FOLDER (default: out/sharing). Every sum is checked.
"""

from experiments import report
from experiments.report import plt
from experiments.sharing import contest
from experiments.sharing.contest import SCHEMES

AGGREGATORS = {2: [256, 128, 64, 32], 10: [640, 320, 160]}
WORKERS = 8
WINDOW = 128  # fills the server's link
OPERATIONS = 60
SEEDS = [1, 2, 3, 4, 5]
# Ours with less: the part bounds what is in flight, but no collision does; collisions do, but
# nobody says or keeps a part; neither, so only places are left; and both with a single place.
APART = {
    "part": {"room": 0},
    "collisions": {"first_come": True},
    "places": {"first_come": True, "room": 0},
    "one place": {"places": 1},
}


def measure(aggregators, operations, seeds=(1,), schemes=tuple(SCHEMES)):
    """`aggregators`: a list by the number of jobs. `schemes`: of SCHEMES or APART."""

    def options_of(jobs, aggregators, scheme):
        options = {
            "jobs": jobs,
            "workers": WORKERS,
            "aggregators": aggregators,
            "operations": operations,
        }
        if scheme not in APART:
            return contest.sharing(scheme, options, WINDOW)
        window = aggregators // jobs if scheme == "part" else WINDOW
        return contest.congestion_control(options, window) | APART[scheme]

    cases = [
        {"jobs": jobs, "aggregators": n, "scheme": scheme}
        for jobs, counts in aggregators.items()
        for n in counts
        for scheme in schemes
    ]
    return contest.measure(cases, options_of, seeds)


def places_of(rows):
    return list(dict.fromkeys((row["jobs"], row["aggregators"]) for row in rows))


def side_by_side(rows):
    """(jobs, aggregators, static's goodput, and by scheme its part of that and Jain's indexes)."""
    for jobs, n in places_of(rows):
        here = [row for row in rows if (row["jobs"], row["aggregators"]) == (jobs, n)]
        static = [row["goodput_gbit"] for row in here if row["scheme"] == "static"]
        by_scheme = {
            scheme: (
                contest.over_static(here, scheme),
                [row["jain"] for row in here if row["scheme"] == scheme],
            )
            for scheme in dict.fromkeys(row["scheme"] for row in here)
        }
        yield jobs, n, sum(static) / len(static), by_scheme


def table(rows):
    """Goodput over the static partition's, the least and the most of the seeds; the least Jain."""
    schemes = [scheme for scheme in dict.fromkeys(row["scheme"] for row in rows)
               if scheme != "static"]  # fmt: skip
    head = "".join(f"{scheme + ' / static, Jain':>25}" for scheme in schemes)
    lines = [f"jobs  aggregators  static, Gbit/s{head}"]
    for jobs, n, static, by_scheme in side_by_side(rows):
        line = f"{jobs:4}  {n:11}  {static:14.1f}"
        for scheme in schemes:
            ratios, jains = by_scheme[scheme]
            line += f"    {min(ratios):.3f} to {max(ratios):.3f}  {min(jains):.3f}"
        lines.append(line)
    return "\n".join(lines)


def verdict(rows):
    worst = {
        scheme: min((min(by[scheme][0]), jobs, n) for jobs, n, _, by in side_by_side(rows))
        for scheme in ("ours", "paper")
    }
    ours = "; ".join(
        f"{SCHEMES[scheme]} {ratio:.0%} with {jobs} jobs on {n} aggregators"
        for scheme, (ratio, jobs, n) in worst.items()
    )
    return report.verdict(
        "two VGG16 jobs are equally fast (Fig. 12); with three, dynamic sharing loses 5 to 10 % at "
        "half of the aggregators and is 38 % better than static under heavy contention",
        "Jain's index of ours is at least "
        f"{min(row['jain'] for row in rows if row['scheme'] == 'ours'):.3f}. The worst, of the "
        f"static partition's goodput: {ours}",
        "these jobs never pause, so neither leaves aggregators to the other, and the server's link "
        "is the bottleneck: a fragment without an aggregator crosses it eight times. Jobs that "
        "pause are in phases.py.",
    )


def plot(rows):
    counts = sorted({row["jobs"] for row in rows})
    figure, panels = plt.subplots(1, len(counts), figsize=(10, 3.8), squeeze=False)
    for axes, jobs in zip(panels[0], counts, strict=True):
        contest.plot_goodput(axes, [row for row in rows if row["jobs"] == jobs], SCHEMES)
        axes.set_title(f"{jobs} jobs of {WORKERS} workers that never pause", fontsize=11)
    panels[0][0].set_ylabel("Gbit/s of sums, all jobs")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    rows = measure(AGGREGATORS, OPERATIONS, SEEDS, [*SCHEMES, *APART])
    print(table(rows))
    print(verdict(rows))
    report.publish(f"{folder}/few-aggregators", rows, plot(rows))


if __name__ == "__main__":
    main()
