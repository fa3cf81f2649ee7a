"""Attacks a job from docs/inside/protocol alone, with and without keys, and measures what it costs.

    .venv/bin/python -m experiments.defence [--only WORDS] [--keys yes|no] [--rounds N] [FOLDER]

Real processes in namespaces: two racks of two torch ranks with a switch each, a switch above both,
a server, a page, and a stranger's host. The stranger knows the page, every address and port, the
job's number and incarnation. A row (attacks.py) says what else it needs. Each round measures steps
per second before, during and after the attack; the share of sums that took the least packets that
the tree allows, which other load on the machine hardly changes; of the process that gains most,
descriptors, bytes of log and of memory, and processor time; and the stranger's processor time, of
whose rest a job must keep 0.95. Writes attacks.csv into FOLDER (default: out/defence).
"""

import csv
import dataclasses
import os
import statistics
import tempfile
import time
from operator import neg
from pathlib import Path

from experiments import report
from experiments.defence import rig
from experiments.defence.attacks import A_JOIN, CAPTURE, CONTROLS, DOUBLE, MEETING, ROWS

KEPT, RECOVERED = 0.95, 0.8
LEASE_S = 6.5
WARM_S, JOINS_S = 4, 2.5
LINES = 100  # bytes of a line that an operator reads
# An acceptor has 64 guests, the page 32 streams.
MOST_LOG, MOST_FILES, MOST_MEMORY = 100 * LINES, 64 + 32 + 8, 64 << 20


@dataclasses.dataclass
class Found:
    """What one row did to one job."""

    name: str
    keyed: bool
    before: float = 0
    during: float = 0
    after: float = 0
    kept: float = 0  # the median of the rounds' ratios, during / before and after
    noise: float = 0  # the largest deviation of an undisturbed phase from their median
    least: float = 0  # the share of sums, during, that took the least packets of the tree
    amplification: float | None = None  # bytes received per byte sent, of UDP
    files: int = 0  # of the process that gained most; the same for the others
    log: int = 0
    memory: int = 0
    cpu: float = 0  # seconds of processor time per second
    stranger: float = 0  # the same, of the attack itself: on these machines the job lacks it
    packets: int = 0
    wrong: int = 0
    ended: str = ""  # why the job has

    def kept_of_the_rest(self):
        """Elsewhere a stranger has processors of its own; here it takes its time from the job."""
        return self.kept / (1 - self.stranger / os.cpu_count())

    def complaints(self, kept=KEPT):
        """In what it falls short."""
        if self.ended:
            return [f"the job has ended: {self.ended}"]
        found = [] if self.packets else ["nothing was sent"]
        if self.wrong:
            found.append(f"{self.wrong} wrong sums")
        if self.kept_of_the_rest() < kept:
            found.append(f"the job keeps {self.kept_of_the_rest():.2f}")
        if self.amplification is not None and self.amplification > 1:
            found.append(f"{self.amplification:.2f} bytes out per byte in")
        if self.log > MOST_LOG:
            found.append(f"{self.log:,} bytes of log")
        if self.files > MOST_FILES:
            found.append(f"{self.files} descriptors")
        if self.memory > MOST_MEMORY:
            found.append(f"{self.memory >> 20} MB of memory")
        return found


def growth(before, after, what):
    return max(after[name][what] - before[name][what] for name in after if name in before)


def measure(rig_, world, row, rounds, seconds, keyed):
    """Rounds of before, during, after; an undisturbed phase after is the next one's before."""
    before, during, after, ratios, grown = [rig_.rate(seconds)], [], [], [], []
    packets, sent, got, out, reflected, stranger = 0, 0, 0, 0, 0, []
    wrong, sums = rig_.wrong(), [0, 0]
    for number in range(rounds):
        costs, bytes_then, sums_then = rig_.costs(), rig_.traffic(), rig_.sums()
        began = time.monotonic()
        rig_.strike(world, row)
        during.append(rig_.rate(seconds))
        costs_now, lasted = rig_.costs(), time.monotonic() - began
        sums = [sum(one) for one in zip(sums, rig_.sums(), map(neg, sums_then), strict=True)]
        told = rig_.end_strike()
        packets, sent, got = packets + told["packets"], sent + told["sent"], got + told["got"]
        stranger.append(told["cpu_s"] / lasted)
        bytes_now = rig_.traffic()
        out, reflected = (
            so_far + now - then
            for so_far, now, then in zip((out, reflected), bytes_now, bytes_then, strict=True)
        )
        grown.append({what: growth(costs, costs_now, what) for what in ("files", "log", "memory")}
                     | {"cpu": growth(costs, costs_now, "cpu_s") / lasted})  # fmt: skip
        after.append(rig_.rate(seconds))
        if after[-1] < RECOVERED * before[-1]:
            time.sleep(LEASE_S)  # what the attack has left behind must end before the next round
            beside = rig_.rate(seconds)
        else:
            beside = after[-1]
        ratios.append(2 * during[-1] / (before[-1] + beside))
        if number + 1 < rounds:
            before.append(beside)
    calm = [*before, beside]
    middle = statistics.median(calm)
    amplification = max(got / max(1, sent), reflected / max(1, out))
    return Found(
        row.name, keyed, statistics.median(before), statistics.median(during),
        statistics.median(after), statistics.median(ratios),
        max(abs(one - middle) for one in calm) / middle,
        sums[1] / max(1, sums[0]),
        amplification if row.way == "udp" and packets else None,
        *(max(one[what] for one in grown) for what in ("files", "log", "memory", "cpu")),
        statistics.median(stranger), packets, rig_.wrong() - wrong,
    )  # fmt: skip


def prepare(running, needs):
    """What these rows need: returns the files of what was captured, of this start and before."""
    captures = [running.folder / name for name in ("captured", "captured-earlier")]
    for file in captures:
        file.touch()
    if DOUBLE in needs:
        running.start_double()
    if CAPTURE in needs:
        with running.capturing("captured-earlier"):
            time.sleep(1)
            running.end_job()
        with running.capturing("captured"):
            running.start_job()
            time.sleep(2)
            running.network["s0"].drop(10)  # per cent: so that NACKs and FLUSHes are sent
            time.sleep(2)
            running.network["s0"].exec("nft", "delete table inet lose")
            for name in ("s0", "a0"):  # so that *unknown job* is sent, and questions are
                running.restart_nodes(name)
                time.sleep(3)
    elif A_JOIN in needs:
        with running.capturing("captured"):
            time.sleep(JOINS_S)
    running.rate(WARM_S if CAPTURE in needs else 1)
    return captures


def attacked(rows, keyed, words):
    with tempfile.TemporaryDirectory() as folder, rig.Rig(folder, keyed) as running:
        captures = prepare(running, {row.needs for row in rows})
        world = running.world(captures)
        for row in rows:
            try:
                found = measure(running, world, row, words.rounds, words.seconds, keyed)
            except rig.JobEnded as ended:
                found = Found(row.name, keyed, ended=str(ended))
                running.end_strike()
                running.job.wait()
                running.restart_nodes()  # the next start has the same incarnation
                running.start_job()
                world = running.world(captures)
            show(found)
            yield found


def meetings(words):
    """Seconds in which ranks meet while a stranger's connections fill their TCP ports."""
    with tempfile.TemporaryDirectory() as folder, rig.Rig(folder, keyed=False) as running:
        world = running.world(prepare(running, set()))
        for algorithm in ("auto", "ring"):
            took = {None: [], MEETING: []}
            for row in [None, MEETING] * words.rounds:
                running.end_job()
                if row:
                    running.strike(world, row)
                running.start_job(algorithm)
                took[row].append(running.met_s())
                if row:
                    running.end_strike()
            calm, attacked_s = (statistics.median(took[row]) for row in took)
            found = f"{calm:.2f} s, with {MEETING.name} {attacked_s:.2f} s"
            print(
                f"{algorithm}: a group is made in {found} (medians of {words.rounds})", flush=True
            )


def show(found):
    out = "—" if found.amplification is None else f"{found.amplification:.2f}"
    print(
        f"| {found.name} | {'keys' if found.keyed else 'none'} | {found.before:.0f} | "
        f"{found.during:.0f} | {found.after:.0f} | {found.kept:.2f} ± {found.noise:.2f} | "
        f"{found.least:.2f} | {out} | {found.files} | {found.log:,} | "
        f"{found.memory / 1e6:.1f} | {found.cpu:.2f} | {found.stranger:.2f} | {found.packets:,} | "
        f"{', '.join(found.complaints()) or 'kept'} |",
        flush=True,
    )


HEAD = (
    "attack", "keys", "before", "during", "after", "kept", "least packets",
    "bytes out per byte in", "descriptors", "bytes of log", "MB", "processor", "stranger",
    "packets", "verdict",
)  # fmt: skip


def main(words):
    if words.meetings:
        meetings(words)
        return
    rows = [row for row in ROWS if any(only in row.name for only in words.only or [""])]
    rows += CONTROLS if words.controls else []
    if not rows:
        raise SystemExit("--only: no attack's name contains this; the names are: "
                         + ", ".join(row.name for row in ROWS))  # fmt: skip
    print("| " + " | ".join(HEAD) + " |\n" + "|---" * len(HEAD) + "|", flush=True)
    found = []
    for keyed in (False, True):
        chosen = [row for row in rows if keyed in row.keys]
        if chosen and words.keys in ("both", "yes" if keyed else "no"):
            found += attacked(chosen, keyed, words)
    Path(words.folder).mkdir(parents=True, exist_ok=True)
    with open(Path(words.folder) / "attacks.csv", "w", newline="") as out:
        writer = csv.DictWriter(out, [field.name for field in dataclasses.fields(Found)])
        writer.writeheader()
        writer.writerows(dataclasses.asdict(one) for one in found)
    short = [one for one in found if one.complaints()]
    print(f"{len(found) - len(short)} of {len(found)} kept")


if __name__ == "__main__":
    parser = report.parser(__doc__, "out/defence")
    parser.add_argument("--only", action="append", help="only attacks whose name has these words")
    parser.add_argument("--keys", choices=("both", "yes", "no"), default="both")
    parser.add_argument(
        "--controls", action="store_true", help="add what the experiment must find fault with"
    )
    parser.add_argument(
        "--meetings", action="store_true", help="only how long ranks take to meet under attack"
    )
    parser.add_argument("--rounds", type=int, default=3, help="per attack (default: 3)")
    parser.add_argument("--seconds", type=float, default=3, help="of a phase (default: 3)")
    main(parser.parse_args())
