"""FSDP2's training step between hosts: over atp and over Gloo, alternately.

    .venv/bin/python -m experiments.fsdp [FOLDER]

Each rank has a network namespace with a link of --mbit in each direction; the switch and the server
have one each, with links N + 1 times as fast. Every block of a small network is sharded with
fully_shard(), so a step has an all-gather of the weights in both directions and a reduce-scatter of
the gradients for each. Steps alternate between the two backends in the same processes (A, B, A, B,
...). Checks that the losses are one rank's on all batches together. Writes fsdp.csv and fsdp.svg
into FOLDER (default: out/fsdp).
"""

import json
import statistics
import sys
from pathlib import Path

from experiments import report
from experiments.report import plt
from experiments.star import star
from lab.ranks import run_ranks

RANK = Path(__file__).with_name("rank.py")
BACKENDS = ("atp", "gloo")
LIMIT_S = 900


def measure(arguments):
    """{backend: seconds of each step}, and the bytes that a rank sends and receives per step."""
    with star(arguments.ranks, arguments.mbit, arguments.ranks + 1) as (network, hosts, route):
        out = network.folder / "result.json"
        words = (sys.executable, RANK, out, arguments.steps, arguments.width, arguments.blocks)
        run_ranks(network, words, LIMIT_S, {"ATP_ROUTE": route, "ATP_ALGORITHM": "auto"}, hosts)
        result = json.loads(out.read_text())
    return result["seconds"], result["bytes"]


def rows_of(seconds, sent, arguments):
    bound = sent * 8 * 1514 / 1448 / (arguments.mbit * 1e6)
    gloo = statistics.median(seconds["gloo"])
    return [
        {
            "backend": backend,
            "step_ms": 1e3 * statistics.median(seconds[backend]),
            "least_ms": 1e3 * min(seconds[backend]),
            "most_ms": 1e3 * max(seconds[backend]),
            "gloo_over_it": gloo / statistics.median(seconds[backend]),
            "bound_ms": 1e3 * bound,
        }
        for backend in BACKENDS
    ]


def print_rows(rows, arguments):
    print(
        f"{arguments.ranks} ranks, links of {arguments.mbit} Mbit/s, {arguments.blocks} blocks of"
    )
    print(f"width {arguments.width}; bound: what a rank's link must carry, with headers")
    print("backend  ms per step (min to max)        Gloo's / its  bound ms")
    for row in rows:
        spread = f"({row['least_ms']:.1f} to {row['most_ms']:.1f})"
        print(
            f"{row['backend']:7} {row['step_ms']:9.1f} {spread:>20} {row['gloo_over_it']:12.2f} "
            f"{row['bound_ms']:9.1f}"
        )


def plot(rows):
    figure, axis = plt.subplots(figsize=(5, 2), layout="constrained")
    axis.barh([row["backend"] for row in rows], [row["step_ms"] for row in rows])
    axis.axvline(rows[0]["bound_ms"], color="k", linestyle=":", label="bound")
    axis.invert_yaxis()
    axis.set_xlabel("time of a training step, ms")
    axis.legend()
    return figure


def parse():
    parser = report.parser(__doc__, "out/fsdp")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument("--steps", type=int, default=10, help="timed steps (default: 10)")
    parser.add_argument("--width", type=int, default=512, help="of a layer (default: 512)")
    parser.add_argument("--blocks", type=int, default=4, help="sharded blocks (default: 4)")
    parser.add_argument(
        "--mbit", type=int, default=1000, help="bandwidth of a rank's link (default: 1000)"
    )
    return parser.parse_args()


def main():
    arguments = parse()
    rows = rows_of(*measure(arguments), arguments)
    print_rows(rows, arguments)
    report.publish(f"{arguments.folder}/fsdp", rows, plot(rows))


if __name__ == "__main__":
    main()
