"""The benefit of dynamic allocation: three jobs with phases of communication (paper Fig. 13a).

    .venv/bin/python -m experiments.sharing.phases [FOLDER]

Each job alternates between summing 248 KiB and computing for 0.2 to 0.6 ms, the same for all its
workers. Compares ours and the paper's rules, both with congestion control, with a static partition
of as many aggregators. Writes phases.csv and phases.svg into FOLDER (default: out/sharing). Every
sum is checked.
"""

from experiments import report
from experiments.report import plt
from experiments.sharing import contest
from experiments.sharing.contest import SCHEMES

JOBS = 3
PEAK = 384  # the minimum for the static partition to fill the server's link
PARTS = [1, 0.75, 0.5, 1 / 3, 0.25]
OPERATIONS = 120
WORKERS = [8, 2, 4, 16]
WINDOW = PEAK // JOBS
SEEDS = [1, 2, 3, 4, 5]


def measure(parts, workers_list, operations, seeds=(1,)):
    def options_of(workers, aggregators, scheme):
        options = {
            "jobs": JOBS,
            "workers": workers,
            "aggregators": aggregators,
            "fragments": 1024,
            "operations": operations,
            "compute": 400,
        }
        return contest.sharing(scheme, options, WINDOW)

    cases = [
        {"workers": workers, "aggregators": round(PEAK * part), "scheme": scheme}
        for workers in workers_list
        for part in parts
        for scheme in SCHEMES
    ]
    return contest.measure(cases, options_of, seeds)


def side_by_side(rows):
    """(workers, aggregators, static's goodput, and ours and the paper's over it, by seed)."""
    for workers, n in dict.fromkeys((row["workers"], row["aggregators"]) for row in rows):
        here = [row for row in rows if (row["workers"], row["aggregators"]) == (workers, n)]
        static = [row["goodput_gbit"] for row in here if row["scheme"] == "static"]
        both = [contest.over_static(here, scheme) for scheme in ("ours", "paper")]
        yield workers, n, sum(static) / len(static), *both


def table(rows):
    lines = ["workers  aggregators  static, Gbit/s   ours / static            the paper's / static"]
    for workers, n, static, ours, paper in side_by_side(rows):
        lines.append(
            f"{workers:7}  {n:4} ({n / PEAK:4.0%})  {static:14.2f}   "
            f"{contest.mean_and_span(ours):25}{contest.mean_and_span(paper)}"
        )
    return "\n".join(lines)


def verdict(rows):
    ours = "; ".join(
        f"{workers} workers: {min(least for least, _ in pairs):.2f} to "
        f"{max(most for _, most in pairs):.2f}"
        for workers in dict.fromkeys(row["workers"] for row in rows)
        for pairs in [[(min(o), max(o)) for w, _, _, o, _ in side_by_side(rows) if w == workers]]
    )
    return report.verdict(
        "with half of the aggregators dynamic sharing loses 5 to 10 %, static more; under heavy "
        "contention it is 38 % better (Fig. 13a)",
        f"dynamic sharing over static, from the worst number of aggregators to the best: {ours}",
        "a fragment without an aggregator crosses the server's link once per worker, so a "
        "collision costs large jobs most. A window is a power of two, so with 75 % and 33 % of the "
        "aggregators a static partition uses only two thirds and three quarters of its region.",
    )


def plot(rows):
    workers_list = sorted({row["workers"] for row in rows})
    figure, panels = plt.subplots(
        1, len(workers_list), figsize=(3.2 * len(workers_list), 3.8), sharey=True, squeeze=False
    )
    for axes, workers in zip(panels[0], workers_list, strict=True):
        contest.plot_goodput(axes, [row for row in rows if row["workers"] == workers], SCHEMES)
        axes.set_title(f"{workers} workers per job")
    panels[0][0].set_ylabel("Gbit/s of sums, three jobs")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    rows = measure(PARTS, WORKERS, OPERATIONS, SEEDS)
    print(table(rows))
    print(verdict(rows))
    report.publish(f"{folder}/phases", rows, plot(rows))


if __name__ == "__main__":
    main()
