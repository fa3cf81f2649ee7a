"""The in-network paper's Fig. 10: one worker loses packets; ATP and a static pool."""

from experiments.papers import lossy_worker
from experiments.papers.entry import Check, Entry, Outcome, State, largest_spread, summary
from experiments.papers.static_pool import Pool
from experiments.papers.static_pool import play as play_pool
from experiments.papers.sweep import HOSTS, lines
from experiments.sharing.contest import play_all

WINDOW = 256
SCHEMES = {
    "atp": "ATP, simulated",
    "pool": "static pool, time-out of 1 ms",
    "real": "ATP, real processes",
}


def figure_10(size):
    fragments = size.of(6_000, 60_000)
    rates = size.of([0, 1e-4, 1e-3, 1e-2], [0, 1e-5, 1e-4, 1e-3, 1e-2])
    runs = [(rate, seed) for rate in rates for seed in size.seeds]
    contests = [
        {
            "jobs": 1,
            "workers": 8,
            "aggregators": 1024,
            "window": WINDOW,
            "loss": rate,
            "fragments": fragments // 10,
            "operations": 15,
            "seed": seed,
        }
        for rate, seed in runs
    ]
    rows = []
    for (rate, seed), result in zip(runs, play_all(contests), strict=True):
        rows.append(
            {"loss": rate, "scheme": "atp", "seed": seed, "goodput_gbit": sum(result["goodput"])}
        )
        pool = play_pool(Pool(slots=WINDOW, chunks=fragments, loss=rate, seed=seed))
        rows.append({"loss": rate, "scheme": "pool", "seed": seed, "goodput_gbit": pool.gbit})
    table = summary(rows, ["loss", "scheme"], ["goodput_gbit"])
    real = lossy_worker.kept(size.of(1, 3), size.of(2, 8))
    table += [{"scheme": "real", **row} for row in real]
    at = {(row["scheme"], row["loss"]): row["goodput_gbit"] for row in table}
    kept = {key: value / at[key[0], 0] for key, value in at.items()}
    for row in table:
        row["kept"] = kept[row["scheme"], row["loss"]]
    figure = lines(
        [
            {
                **r,
                "loss": 100 * r["loss"],
                "goodput_gbit": r["kept"],
                **{
                    f"goodput_gbit_{e}": r[f"goodput_gbit_{e}"] / at[r["scheme"], 0]
                    for e in ("least", "most")
                },
            }
            for r in table
        ],
        "loss",
        SCHEMES,
        "packets lost from and to one worker, %",
    )
    figure.axes[0].set_xscale("symlog", linthresh=1e-3)
    figure.axes[0].set_xlim(left=0)
    figure.axes[0].set_ylabel("goodput relative to none lost")
    return Outcome(
        "Goodput of ATP and of the pool, relative to no loss: "
        + "; ".join(
            f"{kept['atp', rate]:.0%} and {kept['pool', rate]:.0%} at {rate:.3%}"
            for rate in rates[1:]
        )
        + f". Of their {1000 * real[0]['goodput_gbit']:.0f} Mbit/s without loss, "
        + "real processes keep "
        + " and ".join(f"{row['kept']:.0%} at {row['loss']:.1%}" for row in real[1:])
        + ".",
        table,
        largest_spread(table, "goodput_gbit"),
        [
            Check(
                "what ATP keeps of its goodput at 0.1 % loss, divided by what the pool keeps",
                kept["atp", 1e-3] / kept["pool", 1e-3],
                1.1,
                20,
            ),
            Check(
                "what ATP keeps of its goodput at 1 % loss, divided by what the pool keeps",
                kept["atp", 1e-2] / kept["pool", 1e-2],
                1.1,
                40,
            ),
            Check("what ATP keeps of its goodput at 0.01 % loss", kept["atp", 1e-4], 0.7, 1.02),
            Check("what real processes keep at 0.1 % loss", real[1]["kept"], 0.7, 1.1),
            Check("what real processes keep at 1 % loss", real[2]["kept"], 0.3, 1.1),
        ],
        figure,
    )


ENTRIES = [
    Entry(
        "10",
        "Fig. 10, §5.2.3: loss at one worker",
        "Eight workers train without congestion control, and one of them drops 0.001 % to 1 % of "
        "its packets. ATP degrades less than SwitchML, whose time-out is 1 ms: at best it is 34 %"
        " better. Below 0.1 % loss, training loses no throughput.",
        State.SIMULATED,
        "Our job only sums, so nothing hides a repair; the paper's job computes, too. The pool "
        "waits 1 ms for each lost slot, which is 200 of our round trips. The real processes have "
        "links a thousand times slower, whose round trips are longer than what a repair adds.",
        HOSTS + ", one job of eight workers, and the static pool "
        "(experiments/papers/static_pool.py). The pool has 256 packets in flight, ATP 200; with "
        "200, the pool keeps as much within half a percent. Packets are lost in both directions of "
        "one worker's link. The real processes are four workers on links of 100 Mbit/s, a switch "
        "and a server, in network namespaces "
        "(experiments/papers/lossy_worker.py).",
        "recovery better than by time-out: yes; free up to 0.1 %: no",
        figure_10,
    )
]
