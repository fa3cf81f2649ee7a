"""The in-network paper's figures of jobs that share a switch, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, mean_of, summary
from experiments.papers.sweep import COLUMNS, HOSTS, bars, lines, over_seeds, triple
from experiments.report import plt
from experiments.sharing.contest import congestion_control, play_all, static_partition

# Fig. 13a ----------------------------------------------------------------------------------------

PEAK = 384
SHARES = (1, 0.5, 1 / 3)
SHARING = {
    "dynamic": "dynamic, static's window at 100 %",
    "equal": "dynamic, static's window at each point",
    "static": "static partition",
}


def figure_13a(size):
    def options_of(aggregators, scheme):
        options = {
            "jobs": 3,
            "workers": 2,
            "aggregators": aggregators,
            "fragments": 1024,
            "operations": size.of(36, 120),
            "compute": 400,
        }
        if scheme == "static":
            return static_partition(options, 3)
        window = PEAK if scheme == "dynamic" else aggregators
        return congestion_control(options, window // 3)

    counts = [PEAK, PEAK // 2, PEAK // 4]
    cases = [{"aggregators": n, "scheme": s} for n in counts for s in SHARING]
    table = summary(over_seeds(size, cases, options_of), ["aggregators", "scheme"], COLUMNS)
    at = {(row["scheme"], row["aggregators"]): row["goodput_gbit"] for row in table}
    full, half, quarter = counts
    kept = at["dynamic", half] / at["dynamic", full]
    gain = at["dynamic", quarter] / at["static", quarter]
    equal = at["equal", quarter] / at["static", quarter]
    return Outcome(
        f"with half of the aggregators dynamic sharing loses {1 - kept:.1%}; at a quarter it has "
        f"{gain:.2f} times static's goodput, and {equal:.2f} times with static's window; at 100 % "
        f"{at['dynamic', full] / at['static', full]:.2f} times",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "dynamic over static at 100 %", at["dynamic", full] / at["static", full], 0.9, 1.1
            ),
            Check("dynamic at half over dynamic at 100 %", kept, 0.85, 1.02),
            Check("dynamic over static at a quarter", gain, 1.0, 1.5),
        ],
        lines(
            table,
            "aggregators",
            SHARING,
            "aggregators",
            invert=True,
            paper=(
                ([half, half], [0.9 * at["dynamic", full], 0.95 * at["dynamic", full]]),
                "paper, dynamic: 90 to 95 % of 100 %",
            ),
        ),
    )


# Fig. 13b and 13c --------------------------------------------------------------------------------


def figure_13b(size):
    options = {
        "jobs": 3,
        "workers": 2,
        "aggregators": 384,
        "window": 128,
        "fragments": 1024,
        "operations": size.of(40, 120),
        "sample": 50,
    }
    rows = []
    for placement in ("rehash", "hash"):
        wanted = [{**options, "seed": seed, "placement": placement} for seed in size.seeds]
        for seed, result in zip(size.seeds, play_all(wanted), strict=True):
            series = [s for s in result["series"] if s[1]]
            rows += [
                {
                    "placement": placement,
                    "seed": seed,
                    "us": us,
                    "fragments": all_,
                    "at_server": all_ - one,
                }
                for us, all_, one, _ in series[:-2]
            ]

    def share(placement, part):
        values = []
        for seed in size.seeds:
            mine = [r for r in rows if (r["placement"], r["seed"]) == (placement, seed)]
            cut = max(2, len(mine) // 5)
            some = mine[:cut] if part == "first" else mine[-cut:]
            values.append(sum(r["at_server"] for r in some) / sum(r["fragments"] for r in some))
        return sum(values) / len(values), min(values), max(values)

    first, last = share("rehash", "first"), share("rehash", "last")
    fixed = share("hash", "last")
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for placement, text in (("rehash", "rehash (ATP)"), ("hash", "hash without rehash")):
        mine = [r for r in rows if r["placement"] == placement and r["seed"] == 1]
        axes.plot(
            [r["us"] for r in mine],
            [100 * r["at_server"] / r["fragments"] for r in mine],
            label=text,
        )
    axes.set(xlabel="µs", ylabel="% of fragments summed at the server", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return Outcome(
        f"summed at the server: {first[0]:.1%} of the fragments in the first fifth of the run, "
        f"{last[0]:.2%} in the last; without rehash still {fixed[0]:.1%}",
        rows,
        f"{len(size.seeds)} seeds, last fifth {last[1]:.2%} to {last[2]:.2%}",
        [
            Check("share at the server, last fifth", last[0], 0, 0.05),
            Check("share at the server, first fifth over last", first[0] / max(last[0], 1e-4), 2),
            Check("share at the server without rehash, last fifth", fixed[0], 0.1, 1),
        ],
        figure,
    )


def figure_13c(size):
    interval = 100
    options = {
        "jobs": 3,
        "workers": 2,
        "aggregators": 48,
        "window": 64,
        "fragments": 4096,
        "operations": size.of(18, 60),
        "compute": "1,1,2500",  # jobs 1 and 2 hardly pause
        "sample": interval,
        "split_jobs": True,
    }
    contests = [{**options, "seed": seed} for seed in size.seeds]
    rows, ratios = [], []
    for seed, result in zip(size.seeds, play_all(contests), strict=True):
        samples = [(us, *jobs) for us, _, _, jobs in result["series"]]
        # From where job 3 has begun to where the first job has done all.
        ends = next((i for i, s in enumerate(samples) if i > 10 and 0 in s[1:3]), len(samples))
        samples = samples[5:ends]
        rows += [
            {"seed": seed, "us": us, "job_1": one, "job_2": two, "job_3": three}
            for us, one, two, three in samples
        ]
        off = [one + two for _, one, two, three in samples if three == 0]
        on = [one + two for _, one, two, three in samples if three > 0]
        ratios.append(mean_of(off) / mean_of(on))
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    mine = [r for r in rows if r["seed"] == 1][:160]
    for job in (1, 2, 3):
        counts = [r[f"job_{job}"] for r in mine]
        axes.plot([r["us"] / 1000 for r in mine], counts, label=f"job {job}")
    axes.set(xlabel="ms", ylabel=f"summed in the switch per {interval} µs", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return Outcome(
        f"while job 3 pauses, jobs 1 and 2 have {mean_of(ratios):.2f} times as many fragments "
        "summed in the switch per interval as while it sums",
        rows,
        f"{len(ratios)} seeds, {min(ratios):.2f} to {max(ratios):.2f}",
        [Check("jobs 1 and 2 in the switch, job 3 off over on", min(ratios), 1.1, 20)],
        figure,
    )


# Fig. 14 -----------------------------------------------------------------------------------------

PLACEMENTS = {
    "rehash": "hash, rehash after a collision (ATP)",
    "static": "static partition (SwitchML)",
    "hash": "hash without rehash",
    "linear": "linear (sequence mod N)",
}


def figure_14(size):
    def options_of(jobs, scheme):
        options = {
            "jobs": jobs,
            "aggregators": 512,
            "window": 512 // jobs,
            "operations": size.of(20, 60),
        }
        return (
            static_partition(options, jobs)
            if scheme == "static"
            else {**options, "placement": scheme}
        )

    cases = [{"jobs": n, "scheme": s} for n in size.of([1, 8], [1, 2, 4, 8]) for s in PLACEMENTS]
    table = summary(over_seeds(size, cases, options_of), ["jobs", "scheme"], COLUMNS)
    at = {row["scheme"]: row["goodput_gbit"] for row in table if row["jobs"] == 8}
    return Outcome(
        f"with 8 jobs rehash reaches {at['rehash'] / at['static']:.0%} of static, hash without "
        f"rehash {at['hash'] / at['static']:.0%}, linear {at['linear'] / at['static']:.0%}",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check("rehash over static, 8 jobs", at["rehash"] / at["static"], 0.85, 1.05),
            Check("linear over rehash, 8 jobs", at["linear"] / at["rehash"], 0, 0.6),
            Check("hash without rehash over rehash, 8 jobs", at["hash"] / at["rehash"], 0, 0.8),
        ],
        lines(table, "jobs", PLACEMENTS, "jobs"),
    )


# Fig. 20 -----------------------------------------------------------------------------------------

VGG = (2232, 191)  # fragments, and µs of computing, of 1/1000 of an iteration of 32 images
RESNET = (412, 118)


def job_pair(first, second):
    (w1, (f1, c1)), (w2, (f2, c2)) = first, second
    return {"jobs": 2, "workers": f"{w1},{w2}", "fragments": f"{f1},{f2}", "compute": f"{c1},{c2}"}


def figure_20(size):
    pairs = {
        "VGG16 3 + VGG16 3": ((3, VGG), (3, VGG)),
        "VGG16 5 + VGG16 2": ((5, VGG), (2, VGG)),
        "VGG16 3 + ResNet50 3": ((3, VGG), (3, RESNET)),
    }
    common = congestion_control({"aggregators": 512, "operations": size.of(18, 60)}, 256)
    rows = []
    for name, (first, second) in pairs.items():
        for seed in size.seeds:
            together, *alone = play_all(
                [{**common, **job_pair(first, second), "seed": seed}]
                + [
                    {**common, "jobs": 1, "workers": w, "fragments": f, "compute": c, "seed": seed}
                    for w, (f, c) in (first, second)
                ]
            )
            for index, one in enumerate(alone):
                rows.append(
                    {
                        "pair": name,
                        "job": index + 1,
                        "seed": seed,
                        "kept": together["goodput"][index] / one["goodput"][0],
                    }
                )
    table = summary(rows, ["pair", "job"], ["kept"])
    at = {(row["pair"], row["job"]): row["kept"] for row in table}
    equal, uneven, mixed = pairs
    names = [
        row["pair"].split(" + ")[row["job"] - 1] + f"\nof pair {'abc'[i // 2]}"
        for i, row in enumerate(table)
    ]
    figure = bars(
        names,
        [triple(r, "kept") for r in table],
        [0.9, 0.9, None, None, 0.95, 0.9],
        "throughput relative to alone",
    )
    figure.axes[0].tick_params(axis="x", labelsize=7)
    return Outcome(
        "throughput relative to alone (the number is that of workers): "
        + "; ".join(f"{pair}: {at[pair, 1]:.0%} and {at[pair, 2]:.0%}" for pair in pairs),
        table,
        largest_spread(table, "kept"),
        [
            Check("equal jobs, one over the other", at[equal, 1] / at[equal, 2], 0.85, 1.18),
            Check("equal jobs, relative to alone", at[equal, 1], 0.7, 1.02),
            Check(
                "5 workers over 2 workers, relative to alone",
                at[uneven, 1] / at[uneven, 2],
                0.8,
                1.1,
            ),
        ],
        figure,
    )


ENTRIES = [
    Entry(
        "13a",
        "Fig. 13a, §5.4.1: dynamic and static sharing",
        "three VGG16 jobs, 1,980 aggregators (100 %) to 660 (33 %): equal at 100 %, "
        "dynamic loses 5 "
        "to 10 % at 50 %, and is 38 % better than static under heavy contention",
        State.SIMULATED,
        "the paper does not say how many workers its jobs had; a round trip is ten times shorter "
        "here, so ten times fewer aggregators fill a link. By its scheme a static job's window is "
        "its region; a row gives dynamic sharing the same window",
        HOSTS + "; three jobs of two workers, pauses of 200 to 600 µs between sums of 248 KiB",
        "half: yes; 38 %: not reached",
        figure_13a,
    ),
    Entry(
        "13b",
        "Fig. 13b, §5.4.1: collisions over time",
        "three jobs at 100 % of the aggregators: sums at the server vanish after 500 ms",
        State.SIMULATED,
        "a round trip takes 5 µs here and a run some milliseconds, so the workers find free "
        "aggregators a hundred times sooner",
        HOSTS + "; three jobs of two workers, 384 aggregators, windows of 128",
        "yes",
        figure_13b,
    ),
    Entry(
        "13c",
        "Fig. 13c, §5.4.1: a job pauses",
        "three jobs at 33 % of the aggregators: while job 3 pauses (samples 120 to 180 of 10 ms) "
        "the sums of jobs 1 and 2 in the switch rise",
        State.SIMULATED,
        "how much they rise is not in the paper's text",
        HOSTS + "; three jobs of two workers, 48 aggregators, windows of 64; jobs 1 and 2 "
        "hardly pause, job 3 for 1.2 to 3.8 ms between its sums",
        "yes",
        figure_13c,
    ),
    Entry(
        "14",
        "Fig. 14, §5.4.2: placement",
        "1 to 8 jobs that only sum, 100 % of the aggregators: hashing is about as good as static "
        "and far better than linear placement (bars, no numbers)",
        State.SIMULATED,
        "the order is the paper's; hash without rehash is our addition, to show what rehash adds",
        HOSTS + "; 512 aggregators, jobs of four workers, equal windows of 512 / jobs for all "
        "schemes",
        "yes",
        figure_14,
    ),
    Entry(
        "20",
        "Fig. 20, §D.2: two training jobs on one switch",
        "two VGG16 jobs of 3 workers lose 10 % each; 5 and 2 workers: 145.6 and 159.3 img/s; VGG16 "
        "and ResNet50 lose 5 % and 10 %",
        State.SIMULATED,
        "our jobs do not overlap summing with computing as layers do, and their pauses vary, so "
        "they drift in and out of step",
        HOSTS
        + "; 1/1000 of a model per iteration, published compute times of an RTX 2080 Ti, AIMD",
        "roughly: yes",
        figure_20,
    ),
]
