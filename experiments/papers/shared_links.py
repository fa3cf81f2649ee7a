"""The in-network paper's figures of a link that ATP shares with other traffic: real processes."""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from experiments.congestion.fairness import row_of
from experiments.congestion.shared_link import WIRE, Link, cuts, job_beside_flows
from experiments.papers.entry import Check, Entry, Outcome, State, summary
from experiments.papers.sweep import bars, triple
from experiments.report import BUILD

ATP = BUILD / "bin" / "atp"
TCP_WIRE = 1514 / 1448  # bytes on the wire per byte of TCP payload

WORKERS = 6
LINK = Link(20, 40_000)
VGG16 = (128_000, 1, 191)  # bytes, sums, and milliseconds of computing: 20 % of the link
POLICIES = {"aimd": "ours", "paper": "the paper's rules"}


def beside_flows(flows, policy, seconds, program=None):
    with tempfile.TemporaryDirectory() as folder:
        outcome = job_beside_flows(
            *(Path(folder), ATP, flows, "up", policy, LINK, seconds),
            workers=WORKERS,
            program=program,
        )
    if not outcome.verified:
        raise RuntimeError(f"a sum was wrong, or a rank failed:\n{outcome.text[-2000:]}")
    return outcome


def link_is_used(table):
    words = "what both get together, divided by the link's bandwidth"
    return Check(words, table["together"], 0.75, 1.1)


def window_reacts(rows):
    words = "how often the job's windows were cut beside the flow, in the run where that was least"
    return Check(words, min(row["cuts"] for row in rows if row["policy"] == "aimd"), 1)


def tables(rows, columns):
    """A summary by policy."""
    return {row["policy"]: row for row in summary(rows, ["policy"], columns)}


def beside_one(policy, seconds):
    """A job that pauses as VGG16 does, alone and beside a flow, at the same time."""
    program = (BUILD / "bin" / "pausing_rank", *VGG16, seconds + 8)
    with ThreadPoolExecutor(2) as pool:
        alone, beside = pool.map(lambda n: beside_flows(n, policy, seconds, program), (0, 1))
    of_link = beside.goodput[0] * WIRE / LINK.mbit
    flow = beside.tcp * TCP_WIRE / LINK.mbit
    return {
        "policy": policy,
        "alone": alone.goodput[0] * WIRE / LINK.mbit,
        "beside": of_link,
        "flow": flow,
        "kept": beside.goodput[0] / alone.goodput[0],
        "together": of_link + flow,
        "cuts": cuts(beside),
    }


def figure_16a(size):
    runs = range(1, size.of(1, 3) + 1)
    rows = [{"run": n, **beside_one(p, size.of(6, 12))} for n in runs for p in POLICIES]
    by_policy = tables(rows, ("alone", "beside", "flow", "kept", "together"))
    table, papers = by_policy["aimd"], by_policy["paper"]
    return Outcome(
        f"Alone the job uses {table['alone']:.0%} of the link. Beside the flow it uses "
        f"{table['beside']:.0%}, so it keeps {table['kept']:.0%} of its speed. The flow gets "
        f"{table['flow']:.0%}, and together they get {table['together']:.0%} of the link. By the "
        f"paper's rules the job keeps {papers['kept']:.0%}, and together they get "
        f"{papers['together']:.0%}.",
        rows,
        f"{len(runs)} runs, the job keeps {table['kept_least']:.0%} to {table['kept_most']:.0%}, "
        f"by the paper's rules {papers['kept_least']:.0%} to {papers['kept_most']:.0%}",
        [
            Check("what the job alone uses of the link", table["alone"], 0.1, 0.3),
            Check(
                "what the job keeps of its speed beside the flow, in the worst run",
                table["kept_least"],
                0.4,
                1.05,
            ),
            link_is_used(table),
            window_reacts(rows),
        ],
        bars(
            ["job alone", "job beside the flow", "flow", "both", "job, paper's rules"],
            [triple(table, c) for c in ("alone", "beside", "flow", "together")]
            + [triple(papers, "beside")],
            [0.2, 0.2, None, 1, None],
            "share of the link",
        ),
    )


def figure_16b(size):
    rows = []
    for run in range(1, size.of(2, 5) + 1):
        for policy in POLICIES:
            outcome = beside_flows(1, policy, size.of(4, 15))
            row = row_of("up", 1, policy, outcome, LINK)
            row["together"] = (row["job_share"] + row["tcp_share"]) / 2
            rows.append({"run": run, **row, "cuts": cuts(outcome)})
    columns = ("job_share", "tcp_share", "together")
    by_policy = tables(rows, columns)
    table, papers = by_policy["aimd"], by_policy["paper"]
    least, most = table["job_share_least"], table["job_share_most"]
    return Outcome(
        f"The job gets {table['job_share']:.2f} times its fair share ({least:.2f} to {most:.2f}), "
        f"and the flow {table['tcp_share']:.2f}. Together they get {table['together']:.0%} of the "
        f"link. By the paper's rules the job gets {papers['job_share']:.2f} times its share "
        f"({papers['job_share_least']:.2f} to {papers['job_share_most']:.2f}), and together they "
        f"get {papers['together']:.0%}.",
        rows,
        f"{run} runs, the job's share {least:.2f} to {most:.2f}",
        [
            Check(
                "what the job gets, divided by its fair share, in the worst run",
                least,
                size.of(0.25, 0.5),
                1.8,
            ),
            Check(
                "what the flow gets, divided by its fair share",
                table["tcp_share"],
                0.4,
                size.of(1.75, 1.5),
            ),
            link_is_used(table),
            window_reacts(rows),
        ],
        bars(
            ["job", "TCP flow", "both, of the link", "job, paper's rules"],
            [triple(table, c) for c in columns] + [triple(papers, "job_share")],
            [1, 1, 1, None],
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
        State.REAL,
        "The job does not train: it sleeps for VGG16's published compute time (191 ms, varied by "
        "20 %), and then sums, without overlap. Beside the flow a sum gets half of the link and "
        "waits in the queue that cubic fills (16 ms), so it takes longer. The link is 5,000 times "
        "slower.",
        "Six workers, a switch, a server and a cubic flow from one worker. The link runs at 20 "
        "Mbit/s with a queue of 40 kB, and a sum is 128 kB, so that alone it takes as long as "
        "VGG16's does at 100 Gbit/s. *The paper's rules* are workers with `ATP_CONGESTION=paper` "
        "and a switch with `--places 1 --first-come`.",
        "together yes; the job keeps little more than half of its speed",
        figure_16a,
    ),
    Entry(
        "16b",
        "Fig. 16b, §5.5: a job that only sums beside other traffic",
        "Six workers and a server with links of 100 Gbit/s only sum, while another flow sends at "
        "line rate on one worker's link. The job comes near its fair share, and both together "
        "come near the line rate.",
        State.REAL,
        "The rates, the queue and TCP's algorithm (cubic) differ. The job's window grows by a "
        "packet per round trip; cubic's does not.",
        "As for Fig. 16a. *The paper's rules* are as in Fig. 16a.",
        "yes; the job takes more than its share from the flow",
        figure_16b,
    ),
]
