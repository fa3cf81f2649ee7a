"""Training of real processes to an accuracy, over atp and over Gloo, with loss and few aggregators.

Four ranks, a switch and a server are hosts of their own (network namespaces) with shaped links.
"""

import json
import os
import sys
import tempfile
from pathlib import Path

from experiments.accuracy.tasks import tasks
from experiments.congestion.shared_link import K, start_node
from experiments.papers.entry import Check, Entry, Outcome, State, mean_of
from experiments.papers.training_rank import PATHS
from experiments.report import BUILD, REPOSITORY, plt
from lab.network import Network
from lab.ranks import PYTHON, run_ranks

ATP = BUILD / "bin" / "atp"
RANKS, MBIT = 4, 50
FEW = 2  # aggregators, one for a fragment; a window has up to 256 packets
CASES = {
    "none": "no loss",
    "loss": "1 % loss",
    "few": f"{FEW} aggregators",
}
NAMES = dict(zip(PATHS, ("ATP", "Gloo"), strict=True))
LIMIT_S = 1500


def train(case, seed, steps, every):
    """A row per path and test."""
    hosts = [f"h{rank}" for rank in range(RANKS)]
    with (
        tempfile.TemporaryDirectory() as name,
        Network(Path(name), {"rack": [*hosts, "switch", "server"]}) as network,
    ):
        for host in hosts:
            network.shape_host(host, MBIT)
        for host in ("switch", "server"):
            network.shape_host(host, MBIT * (RANKS + 1))
        start_node(network, ATP, "server", "server")
        upstream = ("--upstream", f"{network['server'].address}/32")
        few = ("--aggregators", FEW, "--places", 1) if case == "few" else ()
        start_node(network, ATP, "switch", "switch", *upstream, *few)
        if case == "loss":
            for host in network.hosts.values():
                host.drop(1)
        result = Path(name) / "result.json"
        words = (sys.executable, "-m", "experiments.papers.training_rank", result)
        address = f"{network['server'].address}:5500"
        env = {
            "ATP_ROUTE": f"{network['switch'].address}:5501,{address}",
            "ATP_VALUES_PER_FRAGMENT": K,
            "PYTHONPATH": os.pathsep.join(map(str, (REPOSITORY, PYTHON))),
        }
        command = [str(word) for word in (*words, seed, steps, every)]
        run_ranks(network, command, LIMIT_S, env, [network[host] for host in hosts])
        asked = network["server"].exec(ATP, "status", address, "--json")
        rows = json.loads(result.read_text())
    counters = json.loads(asked)["counters"]
    share = counters["fragments_completed_by_one_packet"] / counters["fragments_completed"]
    return [{"case": case, "seed": seed, **row, "share_in_switch": share} for row in rows]


def by_run(rows):
    """The tests of each model: {(case, path, seed): rows}."""
    runs = {}
    for row in rows:
        runs.setdefault((row["case"], row["way"], row["seed"]), []).append(row)
    return runs


def mean(values, case, way):
    """Over the seeds."""
    return mean_of([value for key, value in values.items() if key[:2] == (case, way)])


def reached(rows, target):
    """The first test with this accuracy; the last one, if none has it."""
    return next((row for row in rows if row["accuracy"] >= target), rows[-1])


def plot(runs):
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    cases = {case: text for case, text in CASES.items() if (case, PATHS[0], 0) in runs}
    for (case, text), color in zip(cases.items(), ("C0", "C1", "C2"), strict=False):
        for way, style in zip(PATHS, ("o-", "s--"), strict=True):
            mine = runs[case, way, 0]
            axes.plot(
                [row["seconds"] for row in mine],
                [100 * row["accuracy"] for row in mine],
                style,
                color=color,
                ms=3,
                label=f"{NAMES[way]}, {text}",
            )
    axes.set(xlabel="seconds of training", ylabel="accuracy on the test set, %")
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return figure


def figure_11(size):
    if package := tasks()["cnn"].missing:
        raise SystemExit(f"no data for the CNN: apt-get install {package}")
    seeds, steps, every, target = size.of((1, 20, 10, 0.5), (2, 80, 10, 0.7))
    cases = size.of(("none", "few"), tuple(CASES))
    rows = [
        row for seed in range(seeds) for case in cases for row in train(case, seed, steps, every)
    ]
    runs, (atp, gloo) = by_run(rows), PATHS
    first = {key: reached(tests, target) for key, tests in runs.items()}
    to_target = {key: row["step"] for key, row in first.items()}
    seconds = {key: row["seconds"] for key, row in first.items()}
    loss = {key: tests[-1]["test_loss"] for key, tests in runs.items()}
    in_switch = {key: tests[-1]["share_in_switch"] for key, tests in runs.items()}
    accuracy = min(tests[-1]["accuracy"] for (_, way, _), tests in runs.items() if way == atp)
    apart = max(
        abs(loss[case, atp, seed] - loss["none", atp, seed])
        for case in cases
        for seed in range(seeds)
    )
    faster = {
        case: [seconds[case, gloo, seed] / seconds[case, atp, seed] for seed in range(seeds)]
        for case in cases
    }
    return Outcome(
        f"After {steps} steps the loss on the test set is {mean(loss, 'none', atp):.4f} over ATP "
        f"and {mean(loss, 'none', gloo):.4f} over Gloo. With "
        f"{' and with '.join(CASES[case] for case in cases[1:])} "
        f"ATP's is {'the same to the last bit' if apart == 0 else f'up to {apart:.1e} away'}, "
        f"although with {FEW} aggregators the switch sums only {mean(in_switch, 'few', atp):.0%} "
        f"of the fragments. An accuracy of {target:.0%} takes "
        f"{mean(to_target, 'none', atp):.0f} steps over ATP and {mean(to_target, 'none', gloo):.0f}"
        " over Gloo. The time to reach it, over ATP and over Gloo: "
        + "; ".join(
            f"{text}: {mean(seconds, case, atp):.1f} and {mean(seconds, case, gloo):.1f} s"
            for case, text in CASES.items()
            if case in cases
        )
        + ".",
        rows,
        f"{seeds} seeds; Gloo's time divided by ATP's: "
        + "; ".join(f"{CASES[c]}: {min(f):.2f} to {max(f):.2f}" for c, f in faster.items()),
        [
            Check("lowest accuracy over ATP at the end", accuracy, target, 1),
            Check(
                "largest difference that packet loss or few aggregators make to the test loss "
                "over ATP",
                apart,
                0,
                0,
            ),
            Check(
                f"share of the fragments that the switch sums with {FEW} aggregators, divided by "
                "that with all",
                mean(in_switch, "few", atp) / mean(in_switch, "none", atp),
                0,
                0.95,
            ),
            Check(
                "test loss over ATP, divided by Gloo's",
                mean(loss, "none", atp) / mean(loss, "none", gloo),
                0.99,
                1.01,
            ),
            Check(
                "steps to the accuracy over ATP, divided by those over Gloo",
                mean(to_target, "none", atp) / mean(to_target, "none", gloo),
                0.8,
                1.2,
            ),
            *size.timed(
                Check(
                    "time to the accuracy over Gloo, divided by that over ATP, without loss",
                    mean_of(faster["none"]),
                    0.7,
                    2,
                ),
            ),
        ],
        plot(runs),
    )


ENTRIES = [
    Entry(
        "11-real",
        "Fig. 11 by real processes, §5.3.1: time to accuracy with loss and few aggregators",
        "As for Fig. 11. (Loss and few aggregators are in Fig. 10 and 13, where the paper gives "
        "throughput.)",
        State.REAL,
        "The model is small, and the links are 2,000 times slower. Ranks, switch and server share "
        "two cores, so the times include what the processors need, and over ATP the switch and the "
        "server need some too. With loss, a fragment over ATP arrives at a host ten times and may "
        "be lost each time; one of Gloo's packets arrives once. Beside other programs, ATP took "
        "longer than Gloo with loss (16.0 and 14.4 s), and as long with few aggregators.",
        "A CNN of 207 thousand parameters trains on Fashion-MNIST with 64 images per step. Four "
        "ranks have links of 50 Mbit/s, switch and server five times that. The ranks train a model "
        "over ATP (32 bits) and one over Gloo, step by step in turn, with the same seed and "
        "images. With loss, each host loses 1 % of what arrives, UDP and TCP alike.",
        "equal steps: yes, even with loss and few aggregators; sooner: while cores are free",
        figure_11,
    )
]
