"""Many workers, one server, too few aggregators: the case for congestion control (paper Fig. 15).

    .venv/bin/python -m experiments.congestion.incast [FOLDER]

Simulates one job of 8 workers with 100 aggregators and windows of up to 1,024 packets, a server
that receives 60 Gbit/s (paper §D.1) and ports with buffers of 200 kB, with congestion control and
with a fixed window, by our rules and by the paper's. Prints goodput and repeats, and
writes incast.csv and incast.svg into FOLDER (default: out/congestion). Every sum of every rank is
checked in the same run.
"""

from experiments import report
from experiments.report import plt
from experiments.sharing.contest import PAPER, numbers, play_all

SAMPLE_US = 100
WORLD = {
    "jobs": 1,
    "workers": 8,
    "aggregators": 100,
    "window": 1024,
    "fragments": 4096,
    "queue_bytes": 200_000,
    "server_gbit": 60,
    "sample": SAMPLE_US,
}
AIMD = {"aimd": True, "ecn_bytes": 65_000}
POLICIES = {
    "ours": (AIMD, "ours, congestion control"),
    "ours, none": ({"room": 0}, "ours, fixed window"),
    "paper": ({**PAPER, **AIMD}, "the paper's rules, congestion control"),
    "paper, none": (PAPER, "the paper's rules, fixed window"),
}
BITS = 62 * 32  # per fragment


def measure(operations):
    """One row per policy, and its goodput over time."""
    contests = [{**WORLD, **extra, "operations": operations} for extra, _ in POLICIES.values()]
    results = play_all(contests)
    rows = [
        {
            "policy": policy,
            **numbers(result),
            "repeats": round(result["repeats"], 3),
        }
        for policy, result in zip(POLICIES, results, strict=True)
    ]
    return rows, {p: r["series"] for p, r in zip(POLICIES, results, strict=True)}


def table(rows):
    lines = ["policy        goodput  in switch  packets to server  repeats (both per fragment)"]
    for row in rows:
        lines.append(
            f"{row['policy']:11} {row['goodput_gbit']:6.2f} G {row['share_in_switch']:10.1%} "
            f"{row['packets_to_server']:18.2f} {row['repeats']:8.3f}"
        )
    return "\n".join(lines)


def plot(series):
    figure, axes = plt.subplots(figsize=(7, 3.6))
    for policy, samples in series.items():
        times = [us / 1000 for us, *_ in samples[1:]]
        goodput = [fragments * BITS / SAMPLE_US / 1000 for _, fragments, *_ in samples[1:]]
        axes.plot(times, goodput, label=POLICIES[policy][1])
    axes.set(xlabel="ms", ylabel="Gbit/s of sums", ylim=(0, None))
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    return figure


def compared(rows):
    ours, fixed, papers, papers_fixed = (row["goodput_gbit"] for row in rows)
    return report.verdict(
        "66.8 img/s with congestion control, 23.2 without (-65 %, 2.9 times); 7.5 Gbit/s",
        f"by the paper's rules {papers} and {papers_fixed} Gbit/s "
        f"({papers / papers_fixed:.1f} times); by ours {ours} and {fixed}",
        "a training job computes between sums and so hides part of them; this one only sums. By "
        "our rules a worker sends no more than there are aggregators, whatever its window.",
    )


def main():
    folder = report.parser(__doc__, "out/congestion").parse_args().folder
    rows, series = measure(12)
    print(table(rows))
    print(compared(rows))
    report.publish(f"{folder}/incast", rows, plot(series))


if __name__ == "__main__":
    main()
