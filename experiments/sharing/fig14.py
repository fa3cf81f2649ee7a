"""Paper Fig. 14: placement by rehash, compared with hash, linear placement and a static partition.

    .venv/bin/python -m experiments.sharing.fig14 [FOLDER]

1, 2, 4 and 8 jobs of eight workers run back-to-back all-reduces through one switch and one server
in the simulator, on as many aggregators as the static partition needs to fill the server's link.
All schemes have the same fixed windows, so only the choice of an aggregator differs, and that ours
keeps its room; a fragment of ours has several places, of the others one. Writes fig14.csv and
fig14.svg into FOLDER (default: out/sharing); every sum is checked.
"""

from experiments import report
from experiments.report import plt
from experiments.sharing import contest

AGGREGATORS = 512
JOBS = [1, 2, 4, 8]
OPERATIONS = 60
WORKERS = 8
SEEDS = [1, 2, 3, 4, 5]
SCHEMES = {
    "ours": "several places, rehash (ours)",
    "static": "static partition (SwitchML)",
    "rehash": "one place, rehash (the paper's rules)",
    "hash": "one place, hash without rehash",
    "linear": "one place, linear (sequence mod N)",
}
PAPER = "rehash ≈ static ≫ linear"


def options_of(jobs, scheme, workers=WORKERS, operations=OPERATIONS):
    options = {
        "jobs": jobs,
        "workers": workers,
        "aggregators": AGGREGATORS,
        "window": AGGREGATORS // jobs,
        "operations": operations,
    }
    if scheme == "static":
        return contest.static_partition(options, jobs)
    if scheme == "ours":
        return options
    return {**options, **contest.PAPER, "placement": scheme}


def measure(jobs_list, operations, seeds=(1,), workers=WORKERS):
    cases = [{"jobs": jobs, "scheme": scheme} for jobs in jobs_list for scheme in SCHEMES]
    return contest.measure(
        cases, lambda jobs, scheme: options_of(jobs, scheme, workers, operations), seeds
    )


def mean_goodput(rows, **at):
    found = [r["goodput_gbit"] for r in rows if all(r[k] == v for k, v in at.items())]
    return sum(found) / len(found)


def table(rows):
    lines = ["jobs  scheme   goodput      in the switch  packets to server  Jain"]
    for row in rows:
        lines.append(
            f"{row['jobs']:4}  {row['scheme']:7} {row['goodput_gbit']:6.1f} Gbit/s"
            f"  {row['share_in_switch']:12.1%}  {row['packets_to_server']:17.2f}  {row['jain']:.3f}"
        )
    return "\n".join(lines)


def verdict(rows):
    most = max(row["jobs"] for row in rows)
    at = {scheme: mean_goodput(rows, jobs=most, scheme=scheme) for scheme in SCHEMES}
    return report.verdict(
        f"{PAPER} (8 jobs; the bars' heights are not in the text)",
        f"with {most} jobs, of static's goodput: ours {at['ours'] / at['static']:.0%}; with one "
        f"place rehash {at['rehash'] / at['static']:.0%}, hash {at['hash'] / at['static']:.0%}, "
        f"linear {at['linear'] / at['static']:.0%}",
        "the order is the paper's. With one place rehash loses to static by collisions until every "
        "fragment has its own aggregator, and by new fragments that collide again.",
    )


def plot(rows):
    figure, (goodput, share) = plt.subplots(1, 2, figsize=(10, 3.8))
    for scheme, label in SCHEMES.items():
        mine = [row for row in rows if row["scheme"] == scheme and row["seed"] == 1]
        jobs = [row["jobs"] for row in mine]
        style = {"marker": "o", "label": label, "ls": "--" if scheme == "static" else "-"}
        goodput.plot(jobs, [row["goodput_gbit"] for row in mine], **style)
        share.plot(jobs, [100 * row["share_in_switch"] for row in mine], **style)
    goodput.set(xlabel="jobs", ylabel="Gbit/s of sums, all jobs", ylim=(0, None))
    share.set(xlabel="jobs", ylabel="% of fragments summed in the switch", ylim=(0, 105))
    for axes in (goodput, share):
        axes.set_xticks(sorted({row["jobs"] for row in rows}))
        axes.grid(alpha=0.3)
    goodput.legend(fontsize=8)
    figure.suptitle(f"{AGGREGATORS} aggregators, eight workers per job")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    rows = measure(JOBS, OPERATIONS, SEEDS)
    print(table(rows))
    print(verdict(rows))
    report.publish(f"{folder}/fig14", rows, plot(rows))


if __name__ == "__main__":
    main()
