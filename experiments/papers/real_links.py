"""Jobs of real processes that share one link: on a dumbbell (Fig. 12), and computing (Fig. 20).

Workers, switches and servers are hosts of their own (network namespaces) in two racks, between
which one link is shaped. Speeds are sums that rank 0 of a job has seen, over ATP and over Gloo.
"""

import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from experiments.congestion.shared_link import K, start_node
from experiments.papers.entry import Check, Entry, Outcome, State, summary
from experiments.papers.sweep import bars, triple
from experiments.report import BUILD, jain
from lab.network import Network
from lab.ranks import environment

ATP = BUILD / "bin" / "atp"
GLOO_RANK = Path(__file__).with_name("gloo_rank.py")
QUEUE_MS = 16
FOREVER_S = 3600
LIMIT_S = 300


@dataclass(frozen=True)
class Job:
    workers: int
    size: int  # bytes of a tensor
    pause_ms: float = 0
    gloo: bool = False
    right: int = 0  # of the workers, how many are in the right rack, with a switch of its own


class Lab:
    """The left rack has a switch and workers, the right one the servers and further workers."""

    def __init__(self, folder, jobs, mbit):
        self.jobs = jobs
        self.hosts = [[f"j{j}w{rank}" for rank in range(job.workers)] for j, job in enumerate(jobs)]
        left = [
            h
            for hosts, job in zip(self.hosts, jobs, strict=True)
            for h in hosts[: job.workers - job.right]
        ]
        right = [h for hosts in self.hosts for h in hosts if h not in left]
        self.far = set(right)
        servers = [f"server{j}" for j in range(len(jobs))]
        racks = {"left": ["switch-left", *left], "right": ["switch-right", *right, *servers]}
        self.network = Network(folder, racks)
        self.network.shape_uplink("left", mbit, mbit * 1000 // 8 * QUEUE_MS)

    def start(self):
        """Starts everything; returns rank 0 of each job, and all ranks."""
        network = self.network
        network.without_segmentation()
        for switch in ("switch-left", "switch-right"):
            start_node(network, ATP, switch, "switch", "--upstream", f"{network.subnet}.0/24")
        ranks = [
            self._start_gloo(j) if job.gloo else self._start_atp(j)
            for j, job in enumerate(self.jobs)
        ]
        return [of_job[0] for of_job in ranks], sum(ranks, [])

    def _start_atp(self, number):
        network, job = self.network, self.jobs[number]
        start_node(network, ATP, f"server{number}", "server")
        program = BUILD / "bin" / "pausing_rank"
        return [
            network[host].start(
                *(program, job.size, 1, job.pause_ms, FOREVER_S),
                env={
                    "RANK": rank,
                    "WORLD_SIZE": job.workers,
                    "ATP_JOB": number + 1,
                    "ATP_INCARNATION": 1,
                    "ATP_ROUTE": self._route(number, host),
                    "ATP_VALUES_PER_FRAGMENT": K,
                },
            )
            for rank, host in enumerate(self.hosts[number])
        ]

    def _route(self, number, host):
        switches = [] if host in self.far else ["switch-left"]
        switches += ["switch-right"] if self.jobs[number].right else []
        hops = [f"{self.network[name].address}:5501" for name in switches]
        return ",".join([*hops, f"{self.network[f'server{number}'].address}:5500"])

    def _start_gloo(self, number):
        hosts = [self.network[name] for name in self.hosts[number]]
        return [
            host.start(
                *(sys.executable, GLOO_RANK, self.jobs[number].size),
                env=environment(rank, hosts),
            )
            for rank, host in enumerate(hosts)
        ]


def times(rank):
    """When each of a job's sums was complete."""
    lines = rank.log.read_text(errors="replace").rpartition("\n")[0].splitlines()
    return [float(line) for line in lines if line[:1].isdigit()]


def check(ranks):
    for rank in ranks:
        if rank.poll() is not None:
            text = rank.log.read_text(errors="replace")
            raise RuntimeError(f"a sum was wrong, or a rank failed:\n{text[-2000:]}")


@dataclass(frozen=True)
class Measured:
    speeds: list[float]  # sums per second, by job
    link_bytes: float  # per sum, in the busier direction


def play(jobs, mbit, seconds):
    """What jobs do while all of them run, from two seconds after the start."""
    with tempfile.TemporaryDirectory() as folder:
        lab = Lab(Path(folder), jobs, mbit)
        with lab.network:
            first, ranks = lab.start()
            limit = time.monotonic() + LIMIT_S
            while not all(len(times(rank)) > 1 for rank in first):
                check(ranks)
                if time.monotonic() > limit:
                    raise RuntimeError(f"a job has not begun within {LIMIT_S} s")
                time.sleep(0.1)
            time.sleep(2)
            before, begin = lab.network.uplink_counters("left"), time.time()
            time.sleep(seconds)
            after, end = lab.network.uplink_counters("left"), time.time()
            check(ranks)
            sums = [sum(begin < moment <= end for moment in times(rank)) for rank in first]
    crossed = max(after[name] - before[name] for name in ("rx_bytes", "tx_bytes"))
    return Measured([count / (end - begin) for count in sums], crossed / sum(sums))


# Fig. 12 -----------------------------------------------------------------------------------------

SIZE, DUMBBELL_MBIT = 256 << 10, 20
DUMBBELL = {
    "one": [Job(3, SIZE, right=1)],
    "atp": [Job(3, SIZE, right=1)] * 2,
    "gloo": [Job(3, SIZE, right=1, gloo=True)] * 2,
}


def figure_12(size):
    rows = []
    for run in range(1, size.of(1, 3) + 1):
        for case, jobs in DUMBBELL.items():
            measured = play(jobs, DUMBBELL_MBIT, size.of(6, 12))
            found = [8 * SIZE * speed / 1e6 for speed in measured.speeds]
            rows.append(
                {
                    "case": case,
                    "run": run,
                    "each_mbit": sum(found) / len(found),
                    "jain": jain(found),
                    "link_share": measured.link_bytes / SIZE,
                }
            )
    table = summary(rows, ["case"], ["each_mbit", "jain", "link_share"])
    at = {row["case"]: row for row in table}
    each = {case: row["each_mbit"] for case, row in at.items()}
    link = {case: row["link_share"] for case, row in at.items()}
    return Outcome(
        f"Each of two jobs gets {each['atp']:.2f} Mbit/s of sums over ATP, and Jain's index is at "
        f"least {at['atp']['jain_least']:.3f}. Over Gloo each of two gets {each['gloo']:.2f}, so "
        f"ATP is {each['atp'] / each['gloo']:.2f} times as fast. A sum sends {link['gloo']:.2f} "
        f"times its tensor over the link with Gloo, and {link['atp']:.2f} times with ATP, headers "
        f"included. One job alone gets {each['one']:.2f} Mbit/s over ATP.",
        rows,
        f"{len(rows) // len(DUMBBELL)} runs, each over ATP {at['atp']['each_mbit_least']:.2f} to "
        f"{at['atp']['each_mbit_most']:.2f} Mbit/s, over Gloo {at['gloo']['each_mbit_least']:.2f} "
        f"to {at['gloo']['each_mbit_most']:.2f}",
        [
            Check("Jain's index of the two jobs", at["atp"]["jain_least"], 0.9, 1),
            Check(
                "bytes on the link per sum over Gloo, divided by those over ATP",
                link["gloo"] / link["atp"],
                1.2,
                1.5,
            ),
            *size.timed(
                Check(
                    "goodput of one job alone, divided by that of one of two",
                    each["one"] / each["atp"],
                    1.3,
                    2.6,
                ),
                Check(
                    "goodput of one of two jobs over ATP, divided by that over Gloo",
                    each["atp"] / each["gloo"],
                    0.9,
                    1.6,
                ),
            ),
        ],
        bars(
            ["one job alone", "each of two", "each of two, Gloo"],
            [triple(row, "each_mbit") for row in table],
            label="Mbit/s of sums",
        ),
    )


# Fig. 20 -----------------------------------------------------------------------------------------

# The compute times of Fig. 20, and as many bytes as take VGG16's and ResNet50's share of an
# iteration on this link.
PAIRS_MBIT = 50
VGG, RESNET = (320_000, 191), (59_200, 118)
PAIRS = {
    "VGG16 3 + VGG16 3": (Job(3, *VGG), Job(3, *VGG)),
    "VGG16 5 + VGG16 2": (Job(5, *VGG), Job(2, *VGG)),
    "VGG16 3 + ResNet50 3": (Job(3, *VGG), Job(3, *RESNET)),
}
PAPER = [0.9, 0.9, None, None, 0.95, 0.9]


def kept(pair, seconds):
    """Speed beside the other job, divided by that alone; measured at the same time."""
    cases = [pair, pair[:1], pair[1:]]
    with ThreadPoolExecutor(len(cases)) as pool:
        played = pool.map(lambda jobs: play(list(jobs), PAIRS_MBIT, seconds), cases)
        together, one, other = [measured.speeds for measured in played]
    return together[0] / one[0], together[1] / other[0]


def figure_20(size):
    pairs = list(PAIRS)[: size.of(1, len(PAIRS))]
    rows = [
        {"pair": pair, "job": job, "run": run, "kept": share}
        for run in range(1, size.of(1, 3) + 1)
        for pair in pairs
        for job, share in enumerate(kept(PAIRS[pair], size.of(8, 15)), 1)
    ]
    table = summary(rows, ["pair", "job"], ["kept"])
    at = {(row["pair"], row["job"]): row["kept"] for row in table}
    least, most = min(row["kept"] for row in rows), max(row["kept"] for row in rows)
    equal = pairs[0]
    names = [
        row["pair"].split(" + ")[row["job"] - 1] + f"\nof pair {'abc'[i // 2]}"
        for i, row in enumerate(table)
    ]
    figure = bars(
        names,
        [triple(row, "kept") for row in table],
        PAPER[: len(table)],
        "throughput relative to alone",
    )
    figure.axes[0].tick_params(axis="x", labelsize=7)
    figure.axes[0].set_ylim(0, 1.25)  # with room for the legend
    return Outcome(
        "Throughput relative to running alone (the number after a model is its number of workers): "
        + "; ".join(f"{pair}: {at[pair, 1]:.0%} and {at[pair, 2]:.0%}" for pair in pairs)
        + ".",
        rows,
        f"{rows[-1]['run']} runs, {least:.0%} to {most:.0%} over all jobs",
        [
            Check(
                "throughput of one of two equal jobs, divided by the other's",
                at[equal, 1] / at[equal, 2],
                size.of(0.6, 0.8),
                size.of(1.7, 1.25),
            ),
            *size.timed(
                Check("least that a job keeps of its throughput when alone", least, 0.6, 1.05),
                Check("most that a job keeps of its throughput when alone", most, 0.7, 1.1),
            ),
        ],
        figure,
    )


_SETUP = (
    "The hosts are in two racks. The one link between the racks is shaped in each direction, with "
    "a queue of 16 ms. The jobs use congestion control."
)
ENTRIES = [
    Entry(
        "12-real",
        "Fig. 12 by real processes, §5.3.2: two jobs on a dumbbell",
        "As for Fig. 12.",
        State.REAL,
        "Our jobs sum without computing, the link is 5,000 times slower, and Gloo's ring over TCP "
        "stands in for Horovod's. BytePS is not measured.",
        _SETUP
        + "The link runs at 20 Mbit/s. Each job has two workers in the left rack, and one worker "
        "and a server in the right rack. A job sums tensors of 256 KiB, over ATP or over Gloo.",
        "yes",
        figure_12,
    ),
    Entry(
        "20-real",
        "Fig. 20 by real processes, §D.2: two training jobs on one switch",
        "As for Fig. 20.",
        State.REAL,
        "The jobs do not train. They sleep for the published compute times (191 and 118 ms, varied "
        "by 20 %), and then sum, without overlap. The tensors are smaller and the link is "
        "slower, so that a sum takes as long as in the paper.",
        _SETUP
        + "The link runs at 50 Mbit/s. All workers are in the left rack with one switch, and the "
        "servers in the right rack. A job sums 320 kB (VGG16) or 59 kB (ResNet50) and sleeps. The "
        "pair and each job alone run at the same time, in networks of their own.",
        "yes: a job loses less than in the paper",
        figure_20,
    ),
]
