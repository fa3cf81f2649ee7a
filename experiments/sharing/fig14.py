"""Paper Fig. 14: placement by rehash, compared with hash, linear placement and a static partition.

    .venv/bin/python -m experiments.sharing.fig14 [FOLDER]

1, 2, 4 and 8 jobs of four workers run back-to-back all-reduces through one switch and one server in
the simulator, on as many aggregators as the static partition needs to fill the server's link. All
schemes have the same number of fragments in flight, so only placement differs. Writes fig14.csv and
fig14.svg into FOLDER (default: out/sharing); every sum is checked.
"""

from experiments import report
from experiments.report import plt
from experiments.sharing import contest

AGGREGATORS = 512
JOBS = [1, 2, 4, 8]
OPERATIONS = 60
SCHEMES = {
    "rehash": "hash, rehash after a collision (ATP)",
    "static": "static partition (SwitchML)",
    "hash": "hash without rehash",
    "linear": "linear (sequence mod N)",
}
PAPER = "rehash ≈ static ≫ linear"


def measure(jobs_list, operations):
    def options_of(jobs, scheme):
        options = {
            "jobs": jobs,
            "aggregators": AGGREGATORS,
            "window": AGGREGATORS // jobs,
            "operations": operations,
        }
        if scheme == "static":
            return contest.static_partition(options, jobs)
        return {**options, "placement": scheme}

    cases = [{"jobs": jobs, "scheme": scheme} for jobs in jobs_list for scheme in SCHEMES]
    return contest.measure(cases, options_of)


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
    at = {row["scheme"]: row["goodput_gbit"] for row in rows if row["jobs"] == most}
    return report.verdict(
        f"{PAPER} (8 jobs; the bars' heights are not in the text)",
        f"with {most} jobs rehash reaches {at['rehash'] / at['static']:.0%} of static, hash "
        f"{at['hash'] / at['static']:.0%}, linear {at['linear'] / at['static']:.0%}",
        "the order is the paper's. Rehash loses to static by collisions until every fragment has "
        "its own aggregator, and by new fragments that collide again.",
    )


def plot(rows):
    figure, (goodput, share) = plt.subplots(1, 2, figsize=(10, 3.8))
    for scheme, label in SCHEMES.items():
        mine = [row for row in rows if row["scheme"] == scheme]
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
    figure.suptitle(f"{AGGREGATORS} aggregators, four workers per job")
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    rows = measure(JOBS, OPERATIONS)
    print(table(rows))
    print(verdict(rows))
    report.publish(f"{folder}/fig14", rows, plot(rows))


if __name__ == "__main__":
    main()
