"""All-reduces in every wire format and over Gloo, on the same links, alternately.

    .venv/bin/python -m experiments.numbers.formats [FOLDER]

Each rank is a process in its own network namespace, with a link of --mbit in each direction. Switch
and server have their own hosts. The switch's link carries what all N ranks send and what the server
answers, N + 1 times a rank's traffic; with a smaller --wide, a multiple of --mbit, it would be the
bottleneck. A round has one all-reduce per format; the time is that of the slowest rank, and the
median over the rounds is reported. Every result is compared with the true sum. Prints the bytes
that a rank sends per all-reduce relative to the fixed scale, and the minimum time that the links
allow. Writes formats.csv and formats.svg into FOLDER (default: out/numbers).
"""

import json
import statistics
import sys
from pathlib import Path

from experiments import report
from experiments.numbers.formats_rank import WAYS
from experiments.report import plt
from experiments.star import star
from lab.ranks import run_ranks

RANK = Path(__file__).with_name("formats_rank.py")
LIMIT_S = 1800
FRAME = 1514 / 1448  # Ethernet, IP and UDP or TCP headers, approximately


def measure(arguments):
    """By format: seconds of each round, and the bytes that rank 0 sent per all-reduce."""
    with star(arguments.ranks, arguments.mbit, arguments.wide) as (network, hosts, route):
        result = network.folder / "result.json"
        words = (sys.executable, RANK, result, arguments.rounds, arguments.bytes)
        run_ranks(network, [str(word) for word in words], LIMIT_S, {"ATP_ROUTE": route}, hosts)
        return json.loads(result.read_text())


def bound_s(way, arguments):
    """The minimum time that the busiest link allows."""
    size = arguments.bytes * WAYS[way].bytes_per_value / 4 * FRAME
    in_network = max(1, (arguments.ranks + 1) / arguments.wide)
    share = 2 * (arguments.ranks - 1) / arguments.ranks if WAYS[way].is_ring else in_network
    return share * size / (arguments.mbit * 1e6 / 8)


def summarize(measured, arguments):
    medians = {way: statistics.median(seconds) for way, (seconds, _) in measured.items()}
    rows = []
    for way, (seconds, sent) in measured.items():
        bound = bound_s(way, arguments)
        rows.append(
            {
                "way": way,
                "ms": medians[way] * 1e3,
                "spread": (max(seconds) - min(seconds)) / medians[way],
                "gloo_over": medians["gloo float32"] / medians[way],
                "gloo16_over": medians["gloo float16"] / medians[way],
                "fixed_over": medians["fixed"] / medians[way],
                "bytes_beside_fixed": sent / measured["fixed"][1] if sent else 0,
                "bound_ms": bound * 1e3,
                "over_bound": medians[way] / bound,
            }
        )
    return rows


def print_table(rows, arguments):
    print(
        f"{arguments.ranks} ranks, links of {arguments.mbit} Mbit/s, switch and server "
        f"{arguments.wide} times that, {arguments.bytes:,} bytes of float32, "
        f"medians of {arguments.rounds} alternating rounds"
    )
    print(
        f"{'way':14}{'ms':>9}{'spread':>8}{'Gloo f32 /':>11}{'Gloo f16 /':>11}{'fixed /':>9}"
        f"{'bytes/fixed':>12}{'bound ms':>10}{'/ bound':>9}"
    )
    for row in rows:
        sent = f"{row['bytes_beside_fixed']:12.4f}" if row["bytes_beside_fixed"] else f"{'-':>12}"
        print(
            f"{row['way']:14}{row['ms']:9.1f}{row['spread']:8.2f}{row['gloo_over']:11.2f}"
            f"{row['gloo16_over']:11.2f}{row['fixed_over']:9.3f}{sent}{row['bound_ms']:10.1f}"
            f"{row['over_bound']:9.2f}"
        )


def plot(rows):
    figure, axis = plt.subplots(figsize=(6, 3.2), layout="constrained")
    names = [row["way"] for row in rows]
    axis.barh(names, [row["ms"] for row in rows], color="C0", label="measured")
    axis.barh(names, [row["bound_ms"] for row in rows], color="0.7", height=0.3, label="bound")
    axis.invert_yaxis()
    axis.set_xlabel("time, ms")
    axis.legend()
    return figure


def parse():
    parser = report.parser(__doc__, "out/numbers")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument(
        "--mbit", type=int, default=400, help="bandwidth of a rank's link in Mbit/s (default: 400)"
    )
    parser.add_argument(
        "--wide",
        type=int,
        help="bandwidth of switch and server, times --mbit (default: number of ranks + 2)",
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument("--bytes", type=int, default=2**26, help="size of the float32 tensor")
    arguments = parser.parse_args()
    if arguments.wide is None:
        arguments.wide = arguments.ranks + 2
    return arguments


def main():
    arguments = parse()
    rows = summarize(measure(arguments), arguments)
    print_table(rows, arguments)
    report.publish(f"{arguments.folder}/formats", rows, plot(rows))


if __name__ == "__main__":
    main()
