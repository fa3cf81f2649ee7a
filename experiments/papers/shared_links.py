"""The in-network paper's figures of a link that ATP shares with other traffic: real processes."""

import tempfile
from pathlib import Path

from experiments.congestion.fairness import row_of
from experiments.congestion.shared_link import Link, job_beside_flows
from experiments.papers.entry import Check, Entry, Outcome, State, summary
from experiments.papers.sweep import bars, triple
from experiments.report import BUILD


def figure_16b(size):
    link, rows = Link(50, 100_000), []
    for run in range(size.of(2, 5)):
        with tempfile.TemporaryDirectory() as folder:
            outcome = job_beside_flows(
                Path(folder), BUILD / "bin" / "atp", 1, "up", "aimd", link, size.of(4, 15)
            )
        if not outcome.verified:
            raise RuntimeError(f"a sum was wrong, or a rank failed:\n{outcome.text[-2000:]}")
        row = row_of("up", 1, "aimd", outcome, link)
        row["together"] = (row["job_share"] + row["tcp_share"]) / 2
        rows.append({"run": run + 1, **row})
    columns = ("job_share", "tcp_share", "together")
    (table,) = summary(rows, ["flows"], columns)
    shares = [table["job_share_least"], table["job_share_most"]]
    return Outcome(
        f"The job gets {table['job_share']:.2f} of its fair share ({shares[0]:.2f} to "
        f"{shares[1]:.2f}), and the flow {table['tcp_share']:.2f}. Together they get "
        f"{table['together']:.0%} of the link.",
        rows,
        f"{len(rows)} runs, the job's share {shares[0]:.2f} to {shares[1]:.2f}",
        [
            Check(
                "what the job gets, divided by its fair share, in the worst run",
                shares[0],
                0.5,
                1.8,
            ),
            Check("what the flow gets, divided by its fair share", table["tcp_share"], 0.4, 1.5),
            Check(
                "what both get together, divided by the link's bandwidth",
                table["together"],
                0.75,
                1.1,
            ),
        ],
        bars(
            ["job", "TCP flow", "both, of the link"],
            [triple(table, c) for c in columns],
            [1, 1, 1],
            "of the fair share",
        ),
    )


ENTRIES = [
    Entry(
        "16a",
        "Fig. 16a, §5.5: VGG16 beside other traffic",
        "Six workers and a server train while another flow sends at line rate on one worker's "
        "link. The job reaches its peak of about 20 Gbit/s, which is less than its fair share, "
        "and both together nearly reach the line rate.",
        State.NOT_SHOWN,
        "there is no job of real processes yet that pauses as VGG16 does beside TCP.",
    ),
    Entry(
        "16b",
        "Fig. 16b, §5.5: a job that only sums beside other traffic",
        "Six workers and a server with links of 100 Gbit/s only sum, while another flow sends at "
        "line rate on one worker's link. The job comes near its fair share, and both together "
        "come near the line rate.",
        State.REAL,
        "The rates, the queue and TCP's algorithm (cubic) differ. The job's window grows by a "
        "packet per round trip, cubic's does not.",
        "Two workers, a switch, a server and a cubic flow from one worker run in network "
        "namespaces of their own. The link has 50 Mbit/s and a queue of 100 kB. Every element of "
        "every sum is checked.",
        "yes",
        figure_16b,
    ),
]
