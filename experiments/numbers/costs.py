"""The cost of exponents in latency: small, coalesced and queued all-reduces on loopback.

    .venv/bin/python -m experiments.numbers.costs [FOLDER] [--beside CHECKOUT]

Each round starts a job of --ranks with `atp run`, which times every case. Reports the median over
the rounds and the spread, (largest − smallest) / median. With --beside the rounds alternate with
those of another checkout that has been built, such as one before the exponents. Writes costs.csv
and costs.svg into FOLDER (default: out/numbers), which show up to which size exact sums are faster.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.numbers.costs_rank import SWEEP
from experiments.report import REPOSITORY, plt

RANK = Path(__file__).with_name("costs_rank.py")
# The time of one case over another's, and the maximum ratio.
RATIOS = (
    ("64 in flight, one length", "64 in flight, 64 lengths", 1.1),
    ("100 x 1 KiB, coalesced", "100 KiB", 1.5),
)
BESIDE = (("scalar", 1.0), ("64 KiB", 1.5))
LIMIT_S = 300


def run(checkout, ranks, seconds):
    """Seconds per call, by case."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        done = subprocess.run(
            [
                checkout / "build" / "release" / "bin" / "atp",
                *("run", "-n", str(ranks), "--switch", "--"),
                *(sys.executable, RANK, result, str(seconds)),
            ],
            env={
                **os.environ,
                "PYTHONPATH": str(checkout / "python"),
                "OMP_NUM_THREADS": "1",
                "GLOO_SOCKET_IFNAME": "lo",
            },
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        if done.returncode != 0:
            raise SystemExit(f"the job in {checkout} failed:\n{done.stdout}{done.stderr}")
        return json.loads(result.read_text())


def summarize(rounds, beside):
    rows = []
    for case in rounds[0]:
        seconds = [each[case] for each in rounds]
        median = statistics.median(seconds)
        row = {
            "case": case,
            "us": median * 1e6,
            "spread": (max(seconds) - min(seconds)) / median,
            "beside_us": 0.0,
            "over_beside": 0.0,
        }
        if beside and case in beside[0]:
            other = statistics.median(each[case] for each in beside)
            row |= {"beside_us": other * 1e6, "over_beside": median / other}
        rows.append(row)
    return rows


def print_table(rows, arguments):
    print(f"{arguments.ranks} ranks on loopback, medians of {arguments.rounds} rounds")
    beside = f"{'beside us':>11}{'ratio':>8}" if arguments.beside else ""
    print(f"{'case':28}{'us':>10}{'spread':>8}{beside}")
    for row in rows:
        has = arguments.beside and row["beside_us"]
        other = f"{row['beside_us']:11.1f}{row['over_beside']:8.2f}" if has else ""
        print(f"{row['case']:28}{row['us']:10.1f}{row['spread']:8.2f}{other}")
    by_case = {row["case"]: row for row in rows}
    for case, of, most in RATIOS:
        ratio = by_case[case]["us"] / by_case[of]["us"]
        print(f"{case} / {of}: {ratio:.2f} (at most {most})")
    for case, most in BESIDE if arguments.beside else ():
        print(f"{case} / beside: {by_case[case]['over_beside']:.2f} (at most {most})")


def plot(rows, ranks):
    by_case = {row["case"]: row["us"] for row in rows}
    values = [max(16, 4096 // ranks) * times for times in SWEEP]
    figure, axis = plt.subplots(figsize=(5, 3.2), layout="constrained")
    for way in ("blocks", "exact"):
        axis.plot(values, [by_case[f"{n} x small, {way}"] for n in SWEEP], "o-", label=way)
    axis.axvline(values[0], color="0.7", linestyle="--", label="small up to here")
    axis.set_xscale("log", base=2)
    axis.set_xlabel(f"values, {ranks} ranks")
    axis.set_ylabel("time, µs")
    axis.set_ylim(bottom=0)
    axis.legend()
    return figure


def parse():
    parser = report.parser(__doc__, "out/numbers")
    parser.add_argument("--ranks", type=int, default=4, help="number of ranks (default: 4)")
    parser.add_argument("--rounds", type=int, default=7, help="timed rounds (default: 7)")
    parser.add_argument("--seconds", type=float, default=0.3, help="per case and round")
    parser.add_argument("--beside", type=Path, help="another built checkout to alternate with")
    return parser.parse_args()


def main():
    arguments = parse()
    rounds, beside = [], []
    for _ in range(arguments.rounds):
        rounds.append(run(REPOSITORY, arguments.ranks, arguments.seconds))
        if arguments.beside:
            beside.append(run(arguments.beside.resolve(), arguments.ranks, arguments.seconds))
    rows = summarize(rounds, beside)
    print_table(rows, arguments)
    report.publish(f"{arguments.folder}/costs", rows, plot(rows, arguments.ranks))


if __name__ == "__main__":
    main()
