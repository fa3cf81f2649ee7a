"""A figure from the simulator beside ns-3's, and how much they may differ."""

import statistics
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from experiments.report import REPOSITORY

PEERS = REPOSITORY / "build" / "ns3"


class Missing(Exception):
    """A program that has to be built first."""


@dataclass(frozen=True)
class Comparison:
    scenario: str
    what: str
    ours: tuple  # of each run
    theirs: tuple
    bound: float = 0.0  # relative, for each run; 0: equal

    @property
    def difference(self):
        """The largest of any run."""
        of_runs = [
            (a - b) / b if b else float(a != b) for a, b in zip(self.ours, self.theirs, strict=True)
        ]
        return max(of_runs, key=abs)

    @property
    def holds(self):
        return abs(self.difference) <= self.bound

    @property
    def means(self):
        return statistics.mean(self.ours), statistics.mean(self.theirs)


def compare_runs(scenario, runs, bounds):
    """A comparison per figure; `runs`: pairs of the figures of one run, ours and ns-3's."""
    for what, bound in bounds.items():
        ours, theirs = zip(*((mine[what], other[what]) for mine, other in runs), strict=True)
        yield Comparison(scenario, what, ours, theirs, bound)


def at_once(*calls):
    """The results of calls that wait for programs."""
    with ThreadPoolExecutor(len(calls)) as pool:
        return [waiting.result() for waiting in [pool.submit(call) for call in calls]]


def run(program, options, text=None):
    """The output of a program, to which options go as "--name value"."""
    if not program.exists():
        raise Missing(f"{program} does not exist: run `make ns3`")
    words = [str(program)]
    for name, value in options.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    done = subprocess.run(words, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)} exited with code {done.returncode}: {done.stderr}")
    return done.stdout


def run_peer(name, options, text=None):
    return run(PEERS / name, options, text)
