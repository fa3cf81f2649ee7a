"""Does the largest window matter? An incast with any number of aggregators (paper Fig. 15).

    .venv/bin/python -m experiments.congestion.largest_windows [FOLDER]

Simulates the incast of incast.py for several numbers of workers and of aggregators: with congestion
control and each largest window, by our rules of sharing and by the paper's, beside a static pool
with its best fixed window. Prints the worst and the best of all largest windows as a part of the
best fixed one, and what was repeated; writes largest-windows.csv and .svg into FOLDER (default:
out/congestion). Every sum is checked.
"""

from experiments import report
from experiments.congestion.incast import AIMD, WORLD
from experiments.report import plt
from experiments.sharing.contest import PAPER, numbers, play_all

WORKERS = [4, 8, 16, 32]
AGGREGATORS = [50, 100, 200, 400]
WINDOWS = [64, 128, 256, 512, 1024, 2048, 4096]
FIXED = [32, 64, 128, 256]
OPERATIONS = 12  # the first ones find out how many aggregators there are
SEEDS = [1]
RULES = {"ours": {}, "paper": PAPER}


def measure(workers_list, aggregators_list, windows, operations, seeds=(1,)):
    """A row per number of workers, of aggregators, rules, window and seed."""
    cases = [
        {"workers": workers, "aggregators": n, "rules": rules, "window": window, "seed": seed}
        for workers in workers_list
        for n in aggregators_list
        for rules, list_ in [*((name, windows) for name in RULES), ("fixed", FIXED)]
        for window in list_
        for seed in seeds
        if rules != "fixed" or window <= n
    ]

    def options_of(case):
        options = {**WORLD, **case, "operations": operations}
        del options["sample"], options["rules"]
        if case["rules"] == "fixed":
            return {**options, **PAPER, "placement": "linear"}
        return {**options, **AIMD, **RULES[case["rules"]]}

    results = play_all([options_of(case) for case in cases])
    return [
        {**case, **numbers(result), "repeats": round(result["repeats"], 4)}
        for case, result in zip(cases, results, strict=True)
    ]


def compared(rows):
    """(workers, aggregators, best fixed goodput, then by rules the parts of that, and repeats)."""
    for workers, n in dict.fromkeys((row["workers"], row["aggregators"]) for row in rows):
        here = [row for row in rows if (row["workers"], row["aggregators"]) == (workers, n)]
        best = {
            seed: max(
                row["goodput_gbit"]
                for row in here
                if row["rules"] == "fixed" and row["seed"] == seed
            )
            for seed in {row["seed"] for row in here}
        }
        by_rules = {
            rules: (
                [row["goodput_gbit"] / best[row["seed"]] for row in here if row["rules"] == rules],
                max(row["repeats"] for row in here if row["rules"] == rules),
            )
            for rules in RULES
        }
        yield workers, n, max(best.values()), by_rules


def table(rows):
    lines = ["workers  aggregators  best fixed, Gbit/s   ours / it       repeats   paper / it"]
    for workers, n, best, by_rules in compared(rows):
        (ours, repeats), (paper, _) = by_rules["ours"], by_rules["paper"]
        lines.append(
            f"{workers:7}  {n:11}  {best:18.2f}   {min(ours):.3f} to {max(ours):.3f}  "
            f"{repeats:7.4f}   {min(paper):.3f} to {max(paper):.3f}"
        )
    return "\n".join(lines)


def plot(rows):
    found = list(compared(rows))
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for rules in RULES:
        for workers in dict.fromkeys(w for w, *_ in found):
            mine = [(n, min(by[rules][0])) for w, n, _, by in found if w == workers]
            axes.plot(
                [str(n) for n, _ in mine],
                [part for _, part in mine],
                "o-" if rules == "ours" else "x:",
                label=f"{rules}, {workers} workers",
            )
    axes.set(xlabel="aggregators", ylabel="worst window / best fixed one", ylim=(0, None))
    axes.legend(fontsize=7, ncols=2)
    axes.grid(alpha=0.3)
    return figure


def main():
    folder = report.parser(__doc__, "out/congestion").parse_args().folder
    rows = measure(WORKERS, AGGREGATORS, WINDOWS, OPERATIONS, SEEDS)
    print(table(rows))
    report.publish(f"{folder}/largest-windows", rows, plot(rows))


if __name__ == "__main__":
    main()
