"""How a job shares a link with another job, and with 1, 2 and 4 TCP flows (paper §5.5, Fig. 16).

    .venv/bin/python -m experiments.congestion.fairness [--seconds S] [--mbit M] [FOLDER]

Real processes in network namespaces on links shaped with tbf; the flows use cubic. Prints the
goodput (of gradients and of TCP payload) relative to the equal share, and writes fairness.csv and
fairness.svg into FOLDER (default: out/congestion). Every rank checks every element of every sum.
"""

import sys
import tempfile
from pathlib import Path

from experiments import report
from experiments.congestion.shared_link import WIRE, K, Link, equal_jobs, job_beside_flows
from experiments.report import plt

FLOWS = [1, 2, 4]
POLICIES = ("aimd", "none")
COLUMNS = [
    *("direction", "flows", "policy", "job_mbit", "tcp_mbit", "job_share", "tcp_share"),
    "verified",
]


def row_of(direction, flows, policy, outcome, link):
    """Shares are relative to the equal share: 1 is fair, below 0.5 is starvation."""
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


def plot(rows):
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
    both[0].set_ylabel("relative to the equal share")
    both[0].legend()
    figure.tight_layout()
    return figure


def two_jobs(atp, link, seconds):
    """Whether two equal jobs behind one uplink were correct and, with AIMD, fair."""
    print("two equal jobs behind one uplink")
    fair = True
    for policy in POLICIES:
        with tempfile.TemporaryDirectory() as folder:
            outcome = equal_jobs(Path(folder), atp, 2, policy, link, seconds)
        index = report.jain(outcome.goodput)
        fair = fair and outcome.verified and (policy != "aimd" or index >= 0.95)
        print(
            f"  {policy}: {' and '.join(f'{g:.2f}' for g in outcome.goodput)} Mbit/s of "
            f"{link.mbit / WIRE:.2f}, Jain index {index:.3f}, sums verified {outcome.verified}"
        )
    return fair


def verdict(rows):
    ours = [row for row in rows if row["policy"] == "aimd"]
    least = min(min(row["job_share"], row["tcp_share"]) for row in ours)
    return report.verdict(
        "near the fair share (Fig. 16b)",
        f"with congestion control no side in {len(ours)} cases gets less than {least:.0%} "
        "of its equal share",
        "the window grows by a packet per round trip, unlike cubic's, and packets reach the "
        "queue in trains; other queues give other shares.",
    )


def main():
    parser = report.parser(__doc__, "out/congestion")
    parser.add_argument("--seconds", type=float, default=20, help="seconds per case (default: 20)")
    parser.add_argument(
        "--mbit", type=int, default=50, help="bandwidth of the link in Mbit/s (default: 50)"
    )
    options = parser.parse_args()
    link = Link(options.mbit, options.mbit * 2000)
    atp = report.BUILD / "bin" / "atp"

    print(f"links of {link.mbit} Mbit/s with queues of {link.queue_bytes} bytes, K {K}")
    fair = two_jobs(atp, link, options.seconds)
    print("a job and TCP flows on one worker's link; shares are relative to the equal share")
    print(("{:>9} " * len(COLUMNS)).format(*COLUMNS))
    rows = beside_flows(atp, link, options.seconds, POLICIES)
    print(verdict(rows))
    report.publish(f"{options.folder}/fairness", rows, plot(rows))
    starved = [
        row
        for row in rows
        if not row["verified"]
        or (row["policy"] == "aimd" and min(row["job_share"], row["tcp_share"]) < 0.5)
    ]
    sys.exit(0 if fair and not starved else 1)


if __name__ == "__main__":
    main()
