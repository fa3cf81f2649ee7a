"""How soon a job that comes has its share, and the others use what it leaves when it ends.

    .venv/bin/python -m experiments.sharing.newcomers [FOLDER]

Two jobs of eight workers sum without pausing, a third comes, sums for a while and ends. Prints how
many round trips pass from its coming until it has 0.9 of its share (what it gets in the second half
of its time), and from its end until the others together have 0.9 of what they get later. Writes
newcomers.csv and newcomers.svg into FOLDER (default: out/sharing). Every sum is checked.
"""

from bisect import bisect

from experiments import report
from experiments.report import plt
from experiments.sharing import contest
from experiments.sharing.contest import SCHEMES

AGGREGATORS = [384, 192, 96, 48]
WINDOW = 128
FRAGMENTS = 16  # of an operation, so that each job's speed is known every few microseconds
OPERATIONS = (400, 1600)  # of the newcomer, of each other
COMES_US = 400
ROUND_TRIP_US = 5  # without queues
STEP_US = 5 * ROUND_TRIP_US  # the interval over which a speed is a mean
SEEDS = [1, 2, 3, 4, 5]


class Speed:
    """The speed of jobs together at any time, by the completion of their operations."""

    def __init__(self, completed_ps):
        self._us = sorted(ps / 1e6 for job in completed_ps for ps in job)

    def between(self, begin, end):
        """Gbit/s of sums."""
        count = bisect(self._us, end) - bisect(self._us, begin)
        return count * FRAGMENTS * 62 * 32 / (end - begin) / 1000

    def reaches(self, part, begin, end):
        """When it first has this part of its later speed, and keeps it for four intervals."""
        wanted = part * self.between((begin + end) / 2, end)
        at = begin
        while at < end:
            if min(self.between(at, at + n * STEP_US) for n in (1, 5)) >= wanted:
                return at + STEP_US - begin
            at += ROUND_TRIP_US
        return end - begin

    @property
    def last(self):
        return self._us[-1]


def options_of(aggregators, scheme):
    few, many = OPERATIONS
    options = {
        "jobs": 3,
        "workers": 8,
        "aggregators": aggregators,
        "fragments": FRAGMENTS,
        "operations": f"{few},{many}",
        "in_flight": 32,
        "late": f"{COMES_US},0",
    }
    return contest.sharing(scheme, options, WINDOW)


def times(result):
    """Microseconds until the newcomer has its share, and until the others have used up what it had.

    The others are compared with the first of them to end, so their number does not change.
    """
    newcomer, *others = result["completed_ps"]
    alone, rest = Speed([newcomer]), Speed(others)
    ends = min(job[-1] for job in others) / 1e6
    return alone.reaches(0.9, COMES_US, alone.last), rest.reaches(0.9, alone.last, ends)


def measure(aggregators_list, seeds=(1,)):
    cases = [
        {"aggregators": n, "scheme": scheme, "seed": seed}
        for n in aggregators_list
        for scheme in SCHEMES
        for seed in seeds
    ]
    results = contest.play_all(
        [{**options_of(c["aggregators"], c["scheme"]), "seed": c["seed"]} for c in cases]
    )
    rows = []
    for case, result in zip(cases, results, strict=True):
        came, used = times(result)
        trips = {"has_share": came / ROUND_TRIP_US, "is_used_up": used / ROUND_TRIP_US}
        rows.append({**case, **{name: round(n, 1) for name, n in trips.items()}})
    return rows, results


def table(rows):
    lines = ["aggregators  scheme  round trips until a newcomer has its share, its end is used up"]
    for n, scheme in dict.fromkeys((row["aggregators"], row["scheme"]) for row in rows):
        here = [r for r in rows if (r["aggregators"], r["scheme"]) == (n, scheme)]
        spans = [
            f"{min(r[name] for r in here):4.0f} to {max(r[name] for r in here):4.0f}"
            for name in ("has_share", "is_used_up")
        ]
        lines.append(f"{n:11}  {scheme:6}  {spans[0]:>42}  {spans[1]:>19}")
    return "\n".join(lines)


def plot(rows, results):
    """The speeds of the newcomer and of the others, ours, by the number of aggregators."""
    mine = [(row, result) for row, result in zip(rows, results, strict=True)
            if (row["scheme"], row["seed"]) == ("ours", 1)]  # fmt: skip
    figure, panels = plt.subplots(
        1, len(mine), figsize=(3.2 * len(mine), 3.4), sharey=True, squeeze=False
    )
    for axes, (row, result) in zip(panels[0], mine, strict=True):
        newcomer, *others = result["completed_ps"]
        ends = min(job[-1] for job in others) / 1e6
        at = range(0, int(ends), STEP_US)
        for label, jobs in (("newcomer", [newcomer]), ("the two others", others)):
            speed = Speed(jobs)
            axes.plot(at, [speed.between(us, us + STEP_US) for us in at], label=label)
        axes.set(xlabel="µs", title=f"{row['aggregators']} aggregators")
        axes.grid(alpha=0.3)
    panels[0][0].set(ylabel="Gbit/s of sums", ylim=(0, None))
    panels[0][0].legend(fontsize=8)
    figure.tight_layout()
    return figure


def main():
    folder = report.parser(__doc__, "out/sharing").parse_args().folder
    rows, results = measure(AGGREGATORS, SEEDS)
    print(table(rows))
    report.publish(f"{folder}/newcomers", rows, plot(rows, results))


if __name__ == "__main__":
    main()
