"""The demo's training on shaped links: over atp and over Gloo, alternately.

    .venv/bin/python -m experiments.training [FOLDER]

Each rank has a network namespace with a link of --mbit in each direction. The switch and the server
have one each, with links N + 1 times as fast. Both backends get the same links, TCP cubic, and the
same images; a run trains for one epoch. The time of a step is the median over a run. Checks that
all ranks end with the same weights. Writes training.csv and .svg into FOLDER (default:
out/training).
"""

import json
import statistics
import sys

from experiments import report
from experiments.report import plt
from experiments.star import star
from lab.ranks import KEEP_MEMORY, run_ranks

TRAIN = report.REPOSITORY / "examples" / "demo" / "train.py"
BACKENDS = ("atp", "gloo")
LIMIT_S = 900


def train(network, hosts, route, backend, arguments, folder):
    """The result of one run, as rank 0 wrote it."""
    words = (sys.executable, TRAIN, "--backend", backend, "--images", arguments.images,
             "--epochs", 1, "--out", folder)  # fmt: skip
    run_ranks(network, words, LIMIT_S, {**KEEP_MEMORY, "ATP_ROUTE": route}, hosts)
    result = json.loads((folder / "result.json").read_text())
    assert len(set(result["digests"])) == 1, "the ranks' weights differ"
    return result


def step_ms(result):
    """The median time of a step, after the first ones, which connect."""
    times = [result["begin"], *result["times"]]
    steps = [1e3 * (after - before) for before, after in zip(times, times[1:], strict=False)]
    return statistics.median(steps[3:])


def measure(arguments):
    """{backend: the time of a step in each round}, and the loss at the end of each."""
    steps = {backend: [] for backend in BACKENDS}
    losses = {}
    with star(arguments.ranks, arguments.mbit, arguments.ranks + 1) as (network, hosts, route):
        for number in range(arguments.rounds):
            for backend in BACKENDS:
                out = network.folder / f"{backend}-{number}"
                result = train(network, hosts, route, backend, arguments, out)
                steps[backend].append(step_ms(result))
                losses[backend] = result["losses"][-1]
    return steps, losses


def rows_of(steps, losses):
    gloo = statistics.median(steps["gloo"])
    return [
        {
            "backend": backend,
            "step_ms": statistics.median(steps[backend]),
            "least_ms": min(steps[backend]),
            "most_ms": max(steps[backend]),
            "over_gloo": statistics.median(steps[backend]) / gloo,
            "last_loss": losses[backend],
        }
        for backend in BACKENDS
    ]


def print_rows(rows):
    print("backend  ms per step (min to max)      over Gloo's  last loss")
    for row in rows:
        spread = f"({row['least_ms']:.1f} to {row['most_ms']:.1f})"
        print(
            f"{row['backend']:7} {row['step_ms']:9.1f} {spread:>18} {row['over_gloo']:12.2f} "
            f"{row['last_loss']:10.4f}"
        )


def plot(rows):
    figure, axis = plt.subplots(figsize=(5, 2), layout="constrained")
    axis.barh([row["backend"] for row in rows], [row["step_ms"] for row in rows])
    axis.invert_yaxis()
    axis.set_xlabel("time of a training step, ms")
    return figure


def parse():
    parser = report.parser(__doc__, "out/training")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds (default: 3)")
    parser.add_argument("--images", type=int, default=15_360, help="training images per run")
    parser.add_argument(
        "--mbit", type=int, default=200, help="bandwidth of a rank's link in Mbit/s (default: 200)"
    )
    return parser.parse_args()


def main():
    arguments = parse()
    rows = rows_of(*measure(arguments))
    print_rows(rows)
    report.publish(f"{arguments.folder}/training", rows, plot(rows))


if __name__ == "__main__":
    main()
