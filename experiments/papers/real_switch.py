"""Jobs of real processes that share a switch: who sums their fragments, over time.

Each job has two workers and a server of its own, so the counters of a server are those of a job.
Workers, switch and servers are hosts of their own (network namespaces), which write their counters
into files every 20 ms.
"""

import bisect
import contextlib
import json
import tempfile
from pathlib import Path

from experiments.congestion.shared_link import MIB, K, start_node, start_ranks
from experiments.papers.entry import Check, Entry, Outcome, State, mean_of
from experiments.report import BUILD, plt
from lab.network import Network

ATP = BUILD / "bin" / "atp"
JOBS, WORKERS = 3, 2
INTERVAL_S = 0.02
SERVERS = [f"server{job}" for job in range(JOBS)]
HOSTS = [[f"j{job}w{rank}" for rank in range(WORKERS)] for job in range(JOBS)]
LIMIT_S = 180


class Series:
    """The counters of a node over time."""

    def __init__(self, stats):
        text = stats.read_text().rpartition("\n")[0]  # without an incomplete line
        lines = [json.loads(line) for line in text.splitlines()]
        self.times = [line["time_s"] for line in lines]
        self._counters = [line["counters"] for line in lines]

    def at(self, time, name):
        """As last written by this time."""
        index = bisect.bisect_right(self.times, time)
        return self._counters[index - 1][name] if index else 0

    def between(self, begin, end, name):
        return self.at(end, name) - self.at(begin, name)

    def active(self):
        """From the first completed fragment to the last one."""
        done = [counters["fragments_completed"] for counters in self._counters]
        return self.times[bisect.bisect_right(done, 0)], self.times[
            bisect.bisect_left(done, done[-1])
        ]


@contextlib.contextmanager
def shared_switch(aggregators, window, *options, placement="rehash"):
    """Yields (network, the servers' counters, the switch's); `options` are those of the switch."""
    with (
        tempfile.TemporaryDirectory() as name,
        Network(Path(name), {"rack": ["switch", *sum(HOSTS, []), *SERVERS]}) as network,
    ):
        network.without_segmentation()

        def start(host, role, *options):
            return start_node(network, ATP, host, role, *options, interval=INTERVAL_S)

        own = ("--window", window, "--placement", placement)
        servers = [start(server, "server", *own) for server in SERVERS]
        own = ("--upstream", f"{network.subnet}.0/24", "--aggregators", aggregators)
        yield network, servers, start("switch", "switch", *own, *options)


def start_pausing(network, job, size, sums, pause_ms, seconds):
    """Starts the ranks of a job that pauses after this many sums of `size` bytes."""
    route = f"{network['switch'].address}:5501,{network[SERVERS[job]].address}:5500"
    return [
        network[host].start(
            *(BUILD / "bin" / "pausing_rank", size, sums, pause_ms, seconds),
            env={
                "RANK": rank,
                "WORLD_SIZE": WORKERS,
                "ATP_JOB": job + 1,
                "ATP_INCARNATION": 1,
                "ATP_ROUTE": route,
                "ATP_VALUES_PER_FRAGMENT": K,
                "ATP_CONGESTION": "none",
            },
        )
        for rank, host in enumerate(HOSTS[job])
    ]


def finish(network, ranks):
    for rank in ranks:
        code, text = network.wait(rank, LIMIT_S)
        if code != 0:
            raise RuntimeError(f"a sum was wrong, or a rank failed:\n{text[-2000:]}")


def samples(servers, switch, begin, end, interval):
    """A row per interval: fragments of all jobs, and who summed them."""
    rows, count = [], int((end - begin) / interval)
    for number in range(count):
        span = begin + number * interval, begin + (number + 1) * interval
        row = {"ms": round(1000 * number * interval)}
        for job, server in enumerate(servers, 1):
            row[f"job_{job}"] = server.between(*span, "fragments_completed")
            row[f"in_switch_{job}"] = server.between(*span, "fragments_completed_by_one_packet")
        row["collisions"] = switch.between(*span, "collisions")
        rows.append(row)
    return rows


# Fig. 13b ----------------------------------------------------------------------------------------

FIRST = 2000  # fragments, after the last job has begun
# Placement, options of the switch, and the name in the picture.
SCHEMES = {
    "rehash": ("rehash", ("--places", 1), "one place, rehash (paper)"),
    "hash": ("hash", ("--places", 1), "one place, hash without rehash"),
    "places": ("rehash", (), "16 places (ours)"),
}


def collisions_over_time(scheme, sums):
    """Rows from when the last job has begun to when the first one has done all its sums."""
    placement, options, _ = SCHEMES[scheme]
    with shared_switch(384, 128, *options, placement=placement) as (network, servers, switch):
        ranks = []
        for job, hosts in enumerate(HOSTS):
            ranks += start_ranks(network, ATP, job + 1, hosts, SERVERS[job], sums, "none")
        finish(network, ranks)
        series = [Series(stats) for stats in servers]
        spans = [one.active() for one in series]
        begin, end = max(b for b, _ in spans) - INTERVAL_S, min(e for _, e in spans)
        rows = samples(series, Series(switch), begin, end, 0.1)
    for row in rows:
        row["fragments"] = sum(row[f"job_{job}"] for job in range(1, JOBS + 1))
        in_switch = sum(row.pop(f"in_switch_{job}") for job in range(1, JOBS + 1))
        row["at_server"] = row["fragments"] - in_switch
    return [row for row in rows if row["fragments"]]


def share_at_server(rows):
    return sum(row["at_server"] for row in rows) / sum(row["fragments"] for row in rows)


def first_of(rows):
    """The rows of the first FIRST fragments."""
    seen = 0
    for number, row in enumerate(rows):
        seen += row["fragments"]
        if seen >= FIRST:
            return rows[: number + 1]
    return rows


def figure_13b(size):
    runs, sums = size.of(1, 3), size.of(40, 80)
    rows, first, last = [], [], {scheme: [] for scheme in SCHEMES}
    for run in range(1, runs + 1):
        for scheme in SCHEMES:
            mine = collisions_over_time(scheme, sums)
            rows += [{"scheme": scheme, "run": run, **row} for row in mine]
            last[scheme].append(share_at_server(mine[len(mine) // 2 :]))
            if scheme == "rehash":
                first.append(share_at_server(first_of(mine)))
    mean = {scheme: mean_of(shares) for scheme, shares in last.items()}
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for scheme, (_, _, text) in SCHEMES.items():
        mine = [row for row in rows if (row["scheme"], row["run"]) == (scheme, 1)]
        shares = [100 * row["at_server"] / row["fragments"] for row in mine]
        axes.plot([row["ms"] / 1000 for row in mine], shares, label=text)
    axes.set(xlabel="seconds", ylabel="% of fragments summed at the server", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return Outcome(
        f"With one place, {mean_of(first):.1%} of the first {FIRST:,} fragments are summed at the "
        f"servers, in the second half of the run {mean['rehash']:.1%}. Without rehash it is still "
        f"{mean['hash']:.1%}. With 16 places it is {mean['places']:.1%} in the second half.",
        rows,
        f"{runs} runs, second half {min(last['rehash']):.1%} to {max(last['rehash']):.1%}, "
        f"without rehash {min(last['hash']):.1%} to {max(last['hash']):.1%}",
        [
            Check(
                "share summed at the servers in the second half, in the worst run",
                max(last["rehash"]),
                0,
                0.06,
            ),
            Check(
                "share of the first fragments that the servers sum, divided by that in the second "
                "half",
                mean_of(first) / mean["rehash"],
                1.5,
            ),
            Check(
                "share summed at the servers with 16 places in the second half, divided by that "
                "with one",
                mean["places"] / mean["rehash"],
                0,
                0.5,
            ),
            Check(
                "share summed at the servers without rehash in the second half, divided by that "
                "with it",
                mean["hash"] / mean["rehash"],
                3,
            ),
        ],
        figure,
    )


# Fig. 13c ----------------------------------------------------------------------------------------

SHARING = {"dynamic": (), "static": ("--partition", JOBS)}
BURST = 7  # sums of job 3, which take about as long as its pauses
PAUSE_MS = 1000


def one_job_pauses(sharing, seconds):
    """Rows while all three jobs are running; in some of them job 3 pauses and completes nothing."""
    with shared_switch(384 // 3, 128, *SHARING[sharing]) as (network, servers, switch):
        ranks = []
        for job in range(JOBS):
            burst, pause = (BURST, PAUSE_MS) if job == JOBS - 1 else (1, 0)
            ranks += start_pausing(network, job, MIB, burst, pause, seconds)
        finish(network, ranks)
        series = [Series(stats) for stats in servers]
        spans = [one.active() for one in series]
        begin, end = max(b for b, _ in spans), min(e for _, e in spans)
        return samples(series, Series(switch), begin, end, 0.1)


def share_in_switch(rows):
    """Of the fragments of jobs 1 and 2."""
    summed = sum(row["in_switch_1"] + row["in_switch_2"] for row in rows)
    return summed / sum(row["job_1"] + row["job_2"] for row in rows)


def figure_13c(size):
    runs, seconds = size.of(1, 3), size.of(6, 12)
    rows, shares = [], {sharing: [] for sharing in SHARING}
    for run in range(1, runs + 1):
        for sharing, found in shares.items():
            mine = one_job_pauses(sharing, seconds)
            rows += [{"sharing": sharing, "run": run, **row} for row in mine]
            sums = share_in_switch([row for row in mine if row["job_3"]])
            pauses = share_in_switch([row for row in mine if not row["job_3"]])
            found.append((sums, pauses))
    gains = {sharing: [off / on for on, off in found] for sharing, found in shares.items()}
    mean = {s: [mean_of(column) for column in zip(*f, strict=True)] for s, f in shares.items()}
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    mine = [row for row in rows if (row["sharing"], row["run"]) == ("dynamic", 1)]
    for job in range(1, JOBS + 1):
        counts = [row[f"in_switch_{job}"] for row in mine]
        axes.plot([row["ms"] / 1000 for row in mine], counts, label=f"job {job}")
    axes.set(xlabel="seconds", ylabel="summed in the switch per 100 ms", ylim=(0, None))
    axes.legend(fontsize=8)
    axes.grid(alpha=0.3)
    return Outcome(
        f"While job 3 sums, the switch sums {mean['dynamic'][0]:.0%} of the fragments of jobs 1 "
        f"and 2, and while it pauses {mean['dynamic'][1]:.0%}. With a static partition it is "
        f"{mean['static'][0]:.0%} and {mean['static'][1]:.0%}.",
        rows,
        f"{runs} runs, the share rises by a factor of {min(gains['dynamic']):.2f} to "
        f"{max(gains['dynamic']):.2f}; with a static partition the factor is "
        f"{min(gains['static']):.2f} to {max(gains['static']):.2f}",
        [
            Check(
                "share of jobs 1 and 2 that is summed in the switch while job 3 pauses, divided "
                "by that while it sums, in the worst run",
                min(gains["dynamic"]),
                size.of(1.04, 1.12),
                3,
            ),
            Check("the same with a static partition", mean_of(gains["static"]), 0.9, 1.12),
        ],
        figure,
    )


_SETUP = (
    "Three jobs of two workers, each with a server of its own, and one switch are processes in "
    "network namespaces. Nothing limits the links. "
)
_WHY = (
    "Two cores run ten processes, so they sum some 10,000 fragments per second, and a fragment "
    "waits for a worker that is not running. "
)
ENTRIES = [
    Entry(
        "13b-real",
        "Fig. 13b by real processes, §5.4.1: collisions over time",
        "As for Fig. 13b.",
        State.REAL,
        _WHY + "Such a fragment holds its aggregator meanwhile, so some collisions remain.",
        _SETUP + "The jobs sum tensors of 1 MiB; there are 384 aggregators, and the jobs have "
        "fixed windows of 128 packets. The counters are read every 100 ms.",
        "yes, except for a few collisions that remain",
        figure_13b,
    ),
    Entry(
        "13c-real",
        "Fig. 13c by real processes, §5.4.1: a job pauses",
        "As for Fig. 13c.",
        State.REAL,
        _WHY + "When job 3 pauses, the others also get more of the processors. So we compare "
        "shares of their fragments, and not how many there are, and show a static partition, "
        "where nothing should change.",
        _SETUP + "There are 128 aggregators (33 %), and the jobs have fixed windows of 128 "
        "packets. Jobs 1 and 2 sum tensors of 1 MiB without a pause; job 3 sums 7 of them and "
        "pauses for a second (experiments/papers/pausing_rank). The counters are read every 100 "
        "ms.",
        "yes",
        figure_13c,
    ),
]
