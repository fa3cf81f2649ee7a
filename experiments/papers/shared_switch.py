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
            "operations": size.of(18, 120),
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
        f"With half of the aggregators dynamic sharing loses {1 - kept:.1%} of its goodput. With a "
        f"quarter it has {gain:.2f} times the goodput of static sharing, and {equal:.2f} times if "
        "it gets the same window. With all of them it has "
        f"{at['dynamic', full] / at['static', full]:.2f} times that of static sharing.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "goodput of dynamic sharing, divided by static sharing's, "
                "with 100 % of the aggregators",
                at["dynamic", full] / at["static", full],
                0.9,
                1.1,
            ),
            Check(
                "goodput of dynamic sharing with half of the aggregators, "
                "divided by that with 100 %",
                kept,
                0.85,
                1.02,
            ),
            Check(
                "goodput of dynamic sharing, divided by static sharing's, "
                "with a quarter of the aggregators",
                gain,
                1.0,
                1.5,
            ),
            Check("the same with static's window", equal, 0.9, 1.1),
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
        f"In the first fifth of the run {first[0]:.1%} of the fragments are summed at the server, "
        f"in the last fifth {last[0]:.2%}. Without rehash it is still {fixed[0]:.1%}.",
        rows,
        f"{len(size.seeds)} seeds, last fifth {last[1]:.2%} to {last[2]:.2%}",
        [
            Check("share summed at the server in the last fifth of the run", last[0], 0, 0.05),
            Check(
                "share summed at the server in the first fifth, divided by that in the last",
                first[0] / max(last[0], 1e-4),
                2,
            ),
            Check("share summed at the server without rehash in the last fifth", fixed[0], 0.1, 1),
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
        # From where job 3 has begun to where the first job has done all its sums.
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
        f"While job 3 pauses, jobs 1 and 2 have {mean_of(ratios):.2f} times as many fragments "
        "summed in the switch per interval as while it sums.",
        rows,
        f"{len(ratios)} seeds, {min(ratios):.2f} to {max(ratios):.2f}",
        [
            Check(
                "fragments of jobs 1 and 2 summed in the switch while job 3 pauses, "
                "divided by those while it sums, in the worst run",
                min(ratios),
                1.1,
                20,
            )
        ],
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
        f"With 8 jobs rehash reaches {at['rehash'] / at['static']:.0%} of the static partition's "
        f"goodput, hash without rehash {at['hash'] / at['static']:.0%}, and linear placement "
        f"{at['linear'] / at['static']:.0%}.",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "goodput of rehash, divided by the static partition's, with 8 jobs",
                at["rehash"] / at["static"],
                0.85,
                1.05,
            ),
            Check(
                "goodput of linear placement, divided by rehash's, with 8 jobs",
                at["linear"] / at["rehash"],
                0,
                0.6,
            ),
            Check(
                "goodput of hash without rehash, divided by rehash's, with 8 jobs",
                at["hash"] / at["rehash"],
                0,
                0.8,
            ),
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
        "Throughput relative to running alone (the number after a model is its number of workers): "
        + "; ".join(f"{pair}: {at[pair, 1]:.0%} and {at[pair, 2]:.0%}" for pair in pairs)
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
                "what the job of 5 workers keeps of its throughput, "
                "divided by what that of 2 keeps",
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
        "Three VGG16 jobs share 1,980 aggregators (100 %) down to 660 (33 %). At 100 % dynamic "
        "and static sharing are equally fast. At 50 % dynamic sharing loses 5 to 10 %. Under "
        "heavy contention it is 38 % better than static sharing.",
        State.SIMULATED,
        "The paper does not say how many workers its jobs had. A round trip is ten times shorter "
        "here, so ten times fewer aggregators fill a link. In the paper's scheme the window of a "
        "static job is its region; one of our rows gives dynamic sharing the same window.",
        HOSTS + ". Three jobs of two workers pause for 200 to 600 µs between sums of 248 KiB.",
        "with half of the aggregators yes; the 38 % is not reached",
        figure_13a,
    ),
    Entry(
        "13b",
        "Fig. 13b, §5.4.1: collisions over time",
        "Three jobs have 100 % of the aggregators. After a fragment has collided, the server "
        "assigns another aggregator to the next fragment at its place in the window (*rehash*). "
        "Sums at the server vanish after 500 ms.",
        State.SIMULATED,
        "A round trip takes 5 µs here, and a run a few milliseconds, so the workers find free "
        "aggregators a hundred times sooner.",
        HOSTS + ". Three jobs of two workers have 384 aggregators and windows of 128.",
        "yes",
        figure_13b,
    ),
    Entry(
        "13c",
        "Fig. 13c, §5.4.1: a job pauses",
        "Three jobs have 33 % of the aggregators. While job 3 pauses (samples 120 to 180, of 10 "
        "ms each), more of jobs 1 and 2 is summed in the switch.",
        State.SIMULATED,
        "The paper's text does not say how much more it is.",
        HOSTS + ". Three jobs of two workers have 48 aggregators and windows of 64. Jobs 1 and "
        "2 hardly pause; job 3 pauses for 1.2 to 3.8 ms between its sums.",
        "yes",
        figure_13c,
    ),
    Entry(
        "14",
        "Fig. 14, §5.4.2: placement",
        "One to eight jobs that only sum have 100 % of the aggregators. Hashing is about as good "
        "as a static partition, and far better than linear placement. The paper shows bars "
        "without numbers.",
        State.SIMULATED,
        "The order is the paper's. Hash without rehash is our addition, to show what rehash adds.",
        HOSTS + " and 512 aggregators. Jobs of four workers have equal fixed windows in all "
        "schemes: 512 / jobs packets, but at most 200.",
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
