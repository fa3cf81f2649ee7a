"""The in-network paper's figures of a shared switch over time, simulated by our nodes."""

from experiments.papers.entry import Check, Entry, Outcome, State, mean_of
from experiments.papers.sweep import HOSTS
from experiments.report import plt
from experiments.sharing.contest import (
    PAPER,
    SCHEMES,
    congestion_control,
    play_all,
    static_partition,
)

# Fig. 13b ----------------------------------------------------------------------------------------

RULES = {
    "ours": "ours",
    "own": "ours, with congestion control",
    "paper": "the paper's rules",
    "paper own": "the paper's rules, with congestion control",
    "fixed": "the paper's rules without rehash",
    "static": "static partition",
}


def by_rules(rules, options):
    """The options of a contest; the static partition's windows are as large."""
    if rules == "static":
        return static_partition(options, options["jobs"])
    options = options | {"placement": "hash" if rules == "fixed" else "rehash"}
    if rules in ("own", "paper own"):
        options = congestion_control(options, options["window"])
    return options if rules in ("ours", "own") else options | PAPER


def series_of(size, rules):
    """By seed: (µs, fragments, those summed at the server) in each interval."""
    options = {
        "jobs": 3,
        "workers": 8,
        "aggregators": 384,
        "window": 128,
        "fragments": 1024,
        "operations": size.of(40, 120),
        "sample": 50,
    }
    options = by_rules(rules, options)
    results = play_all([{**options, "seed": seed} for seed in size.seeds])
    return [
        [(us, count, count - one) for us, count, one, _ in result["series"] if count][:-2]
        for result in results
    ]


def share_at_server(samples, part):
    cut = max(2, len(samples) // 5)
    some = samples[:cut] if part == "first" else samples[-cut:]
    return sum(at_server for _, _, at_server in some) / sum(count for _, count, _ in some)


def figure_13b(size):
    series = {rules: series_of(size, rules) for rules in RULES}
    found = {
        (rules, part): [share_at_server(samples, part) for samples in runs]
        for rules, runs in series.items()
        for part in ("first", "last")
    }
    at = {key: mean_of(values) for key, values in found.items()}
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for rules, text in RULES.items():
        samples = series[rules][0]
        axes.plot(
            [us for us, _, _ in samples],
            [100 * at_server / count for _, count, at_server in samples],
            label=text,
        )
    axes.set(xlabel="µs", ylabel="% of fragments summed at the server", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    last = found["ours", "last"]
    return Outcome(
        "Share of the fragments that are summed at the server, in the first and in the last fifth "
        f"of the run: ours {at['ours', 'first']:.2%} and {at['ours', 'last']:.2%}, the paper's "
        f"rules {at['paper', 'first']:.1%} and {at['paper', 'last']:.2%}, and without rehash "
        f"{at['fixed', 'first']:.1%} and {at['fixed', 'last']:.1%}. With congestion control ours "
        f"has {at['own', 'first']:.2%} and {at['own', 'last']:.2%}, and the paper's rules "
        f"{at['paper own', 'first']:.1%} and {at['paper own', 'last']:.2%}. A static partition "
        f"sums {at['static', 'last']:.0%} there.",
        [
            {"rules": rules, "seed": seed, "us": us, "fragments": count, "at_server": at_server}
            for rules, runs in series.items()
            for seed, samples in zip(size.seeds, runs, strict=True)
            for us, count, at_server in samples
        ],
        f"{len(size.seeds)} seeds, ours in the last fifth {min(last):.2%} to {max(last):.2%}",
        [
            Check(
                "share summed at the server in the last fifth of the run", at["ours", "last"], 0,
                0.02,
            ),
            Check(
                "share summed at the server in the first fifth, ours divided by the paper's rules'",
                at["ours", "first"] / at["paper", "first"],
                0.001,  # some collide: this is not a static partition
                0.5,
            ),
            Check(
                "the paper's rules: share summed at the server in the first fifth, "
                "divided by that in the last",
                at["paper", "first"] / max(at["paper", "last"], 1e-4),
                1.5,
            ),
            Check(
                "share summed at the server with congestion control in the last fifth of the run",
                at["own", "last"],
                0,
                0.02,
            ),
            Check(
                "share summed at the server with a static partition", at["static", "last"], 0, 0
            ),
            Check(
                "share summed at the server without rehash in the last fifth",
                at["fixed", "last"],
                0.1,
                1,
            ),
        ],
        figure,
    )  # fmt: skip


# Fig. 13c ----------------------------------------------------------------------------------------

INTERVAL_US = 100


SHARING = {
    **SCHEMES,
    "equal": "ours with the static partition's windows",
    "own": "ours with congestion control",
    "paper own": "the paper's rules with congestion control",
}


def intervals_of(size, scheme):
    """By seed: (µs, fragments of job 1, 2 and 3 summed in the switch) in each interval."""
    options = {
        "jobs": 3,
        "workers": 8,
        "aggregators": 48,
        "window": 64,
        "fragments": 4096,
        "operations": size.of(18, 30),
        "compute": "1,1,2500",  # jobs 1 and 2 hardly pause
        "sample": INTERVAL_US,
        "split_jobs": True,
    }
    if scheme == "static":
        options = static_partition(options, 3)
    elif scheme == "equal":
        options |= {"window": static_partition(options, 3)["window"]}
    if scheme.endswith("own"):
        options = congestion_control(options, options["window"])
    if scheme.startswith("paper"):
        options |= PAPER
    runs = []
    for result in play_all([{**options, "seed": seed} for seed in size.seeds]):
        samples = [(us, *jobs) for us, _, _, jobs in result["series"]]
        # From where job 3 has begun to where the first job has done all its sums.
        ends = next((i for i, s in enumerate(samples) if i > 10 and 0 in s[1:3]), len(samples))
        runs.append(samples[5:ends])
    return runs


def gain(samples):
    """What jobs 1 and 2 have summed in the switch while job 3 pauses, over that while it sums."""
    off = [one + two for _, one, two, three in samples if three == 0]
    on = [one + two for _, one, two, three in samples if three > 0]
    return mean_of(off) / mean_of(on)


def in_switch(samples):
    """Fragments of all jobs summed in the switch per interval."""
    return mean_of([sum(jobs) for _, *jobs in samples])


def figure_13c(size):
    runs = {scheme: intervals_of(size, scheme) for scheme in SHARING}
    counts = {scheme: mean_of(list(map(in_switch, found))) for scheme, found in runs.items()}
    gains = {scheme: [gain(samples) for samples in found] for scheme, found in runs.items()}
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    mine = runs["ours"][0][:160]
    for job in (1, 2, 3):
        axes.plot([s[0] / 1000 for s in mine], [s[job] for s in mine], label=f"job {job}")
    axes.set(xlabel="ms", ylabel=f"summed in the switch per {INTERVAL_US} µs", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    ours, static = gains["ours"], gains["static"]
    return Outcome(
        "While job 3 pauses, jobs 1 and 2 have this many times as many fragments summed in the "
        f"switch per interval as while it sums: ours {mean_of(ours):.2f}, the paper's rules "
        f"{mean_of(gains['paper']):.2f}, a static partition {mean_of(static):.2f}. In all, "
        f"{counts['ours']:,.0f}, {counts['paper']:,.0f} and {counts['static']:,.0f} fragments are "
        "summed in the switch per interval. Ours with the static partition's windows has "
        f"{mean_of(gains['equal']):.2f} and {counts['equal']:,.0f}, with congestion control "
        f"{mean_of(gains['own']):.2f} and {counts['own']:,.0f}, and the paper's rules then "
        f"{mean_of(gains['paper own']):.2f} and {counts['paper own']:,.0f}.",
        [
            {"scheme": scheme, "seed": seed, "us": us, "job_1": one, "job_2": two, "job_3": three}
            for scheme, found in runs.items()
            for seed, samples in zip(size.seeds, found, strict=True)
            for us, one, two, three in samples
        ],
        f"{len(ours)} seeds, ours {min(ours):.2f} to {max(ours):.2f}",
        [
            Check(
                "fragments of jobs 1 and 2 summed in the switch while job 3 pauses, "
                "divided by those while it sums, in the worst run",
                min(ours),
                1.1,
                20,
            ),
            Check(
                "the same of a static partition, whose jobs gain only the link",
                mean_of(static),
                0.9,
                1.1,
            ),
            Check(
                "fragments of all jobs summed in the switch, ours divided by a static partition's",
                counts["ours"] / counts["static"],
                1.15,
                2,
            ),
            Check("the same with congestion control", counts["own"] / counts["static"], 1.15, 2),
        ],
        figure,
    )


ENTRIES = [
    Entry(
        "13b",
        "Fig. 13b, §5.4.1: collisions over time",
        "Three jobs have 100 % of the aggregators. After a fragment has collided, the server "
        "assigns another aggregator to the next fragment at its place in the window (*rehash*). "
        "Sums at the server vanish after 500 ms.",
        State.SIMULATED,
        "A round trip takes 5 µs here, and a run a few milliseconds, so the workers find free "
        "aggregators a hundred times sooner. A fragment of ours has 16 places, so few collide even "
        "at first.",
        HOSTS
        + ". Three jobs of eight workers have 384 aggregators and fixed windows of 128, but for "
        "those with congestion control. Ours keeps its room even so.",
        "yes by the paper's rules; by ours nearly none are there from the beginning",
        figure_13b,
    ),
    Entry(
        "13c",
        "Fig. 13c, §5.4.1: a job pauses",
        "Three jobs have 33 % of the aggregators. While job 3 pauses (samples 120 to 180, of 10 "
        "ms each), more of jobs 1 and 2 is summed in the switch.",
        State.SIMULATED,
        "The paper's text does not say how much more it is. A job that pauses also leaves its part "
        "of the links to the others; a static partition shows what that alone brings.",
        HOSTS
        + ". Three jobs of eight workers have 48 aggregators and fixed windows of 64, but for "
        "those with congestion control. Ours keeps its room even so, and needs it. Jobs 1 and "
        "2 hardly pause; job 3 pauses for 1.2 to 3.8 ms between its sums.",
        "yes",
        figure_13c,
    ),
]
