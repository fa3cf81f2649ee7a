#!/usr/bin/env python3
"""How a job shares a link: with another job, and with 1, 2 and 4 TCP flows (paper §5.5, Fig. 16).

    .venv/bin/python experiments/congestion/fairness.py [--seconds S] [--mbit M] [FOLDER]

Real processes in network namespaces on links shaped with tbf; the flows use cubic. Prints goodput
(of gradients, of TCP payload) beside the equal share, and writes fairness.csv and fairness.svg into
FOLDER (default: out/congestion). Every rank compares every element of every sum. Needs root.
"""

import argparse
import csv
import os
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402
from shared_link import WIRE, K, Link, equal_jobs, job_beside_flows  # noqa: E402

from experiments.report import jain  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
FLOWS = [1, 2, 4]
COLUMNS = [
    *("direction", "flows", "policy", "job_mbit", "tcp_mbit", "job_share", "tcp_share"),
    "verified",
]


def row_of(direction, flows, policy, outcome, link):
    """Shares are parts of the equal share: 1 is fair, and below 0.5 somebody starves."""
    equal = link.mbit / (flows + 1)
    job = outcome.goodput[0]
    return {
        "direction": direction,
        "flows": flows,
        "policy": policy,
        "job_mbit": round(job, 2),
        "tcp_mbit": round(outcome.tcp, 2),
        "job_share": round(job * WIRE / equal, 2),
        "tcp_share": round(outcome.tcp * 1514 / 1448 / (equal * flows), 2),
        "verified": outcome.verified,
    }


def beside_flows(atp, link, seconds, policies):
    rows = []
    for direction in ("up", "down"):
        for flows in FLOWS:
            for policy in policies:
                with tempfile.TemporaryDirectory() as folder:
                    outcome = job_beside_flows(
                        Path(folder), atp, flows, direction, policy, link, seconds
                    )
                rows.append(row_of(direction, flows, policy, outcome, link))
                print(("{:>9} " * len(COLUMNS)).format(*map(str, rows[-1].values())), flush=True)
    return rows


def plot(rows, path):
    figure, both = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axes, direction in zip(both, ("up", "down"), strict=True):
        chosen = [r for r in rows if r["direction"] == direction and r["policy"] == "aimd"]
        places = range(len(chosen))
        for shift, name, label in ((-0.2, "job_share", "job"), (0.2, "tcp_share", "TCP flows")):
            axes.bar([p + shift for p in places], [r[name] for r in chosen], 0.4, label=label)
        axes.axhline(1, color="black", linewidth=0.8)
        axes.axhline(0.5, color="black", linewidth=0.8, linestyle=":")
        axes.set_xticks(places, [f"{r['flows']} cubic" for r in chosen])
        axes.set_title(f"{'from' if direction == 'up' else 'to'} the worker")
    both[0].set_ylabel("of the equal share")
    both[0].legend()
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--mbit", type=int, default=50)
    parser.add_argument("folder", nargs="?", default="out/congestion", type=Path)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    link = Link(options.mbit, options.mbit * 2000)
    atp = BUILD / "bin" / "atp"

    print(f"links of {link.mbit} Mbit/s with queues of {link.queue_bytes} bytes, K {K}")
    print("two equal jobs behind one uplink")
    fair = True
    for policy in ("aimd", "none"):
        with tempfile.TemporaryDirectory() as folder:
            outcome = equal_jobs(Path(folder), atp, 2, policy, link, options.seconds)
        index = jain(outcome.goodput)
        fair = fair and outcome.verified and (policy != "aimd" or index >= 0.95)
        print(
            f"  {policy}: {' and '.join(f'{g:.2f}' for g in outcome.goodput)} Mbit/s of "
            f"{link.mbit / WIRE:.2f}, Jain index {index:.3f}, sums verified {outcome.verified}"
        )
    print("a job beside TCP flows on one worker's link; share: part of the equal share")
    print(("{:>9} " * len(COLUMNS)).format(*COLUMNS))
    rows = beside_flows(atp, link, options.seconds, ("aimd", "none"))
    with open(options.folder / "fairness.csv", "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, options.folder / "fairness.svg")
    starved = [
        r for r in rows if r["policy"] == "aimd" and min(r["job_share"], r["tcp_share"]) < 0.5
    ]
    wrong = [r for r in rows if not r["verified"]]
    print(f"paper: near the fair share (Fig. 16b). ours: {len(starved)} of {len(rows) // 2} cases")
    print("with aimd left a side less than half of its equal share")
    sys.exit(0 if fair and not starved and not wrong else 1)


if __name__ == "__main__":
    main()
