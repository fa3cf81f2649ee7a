"""Which figure notices which fault: the figures of sharing, with a product that lacks a rule.

    .venv/bin/python -m experiments.papers.faults [--figure KEY]... [--fault NAME]... [--out FOLDER]

Plants one fault after the other in every contest that stands for the product (not in the paper's
rules or the static partition beside it), runs the quick form of a figure with one seed, and reports
which of its checks fail. Stores faults.json in FOLDER (default: out/papers), of which
docs/results/papers.md has the table. Exit code 1: a figure of the intact product fails, or does not
notice a fault and EXPLAINED does not say why.
"""

import argparse
import json
import sys
from contextlib import contextmanager

from experiments.papers import real_scarcity, real_switch, shared_links, store
from experiments.papers.entry import Size
from experiments.papers.registry import find
from experiments.report import plt
from experiments.sharing import contest
from lab.results import results_folder


def without(*names):
    return lambda options: {name: v for name, v in options.items() if name not in names}


def as_static_partition(options):
    options = without("aimd", "ecn_bytes")(options)
    static = contest.static_partition(options, options["jobs"])
    return static | {"window": min(static["window"], options.get("window", 128))}


def as_hash(options):
    return options | {"placement": "hash"} if "placement" not in options else options


FAULTS = {
    "a static partition": as_static_partition,
    "linear placement": lambda options: options | {"placement": "linear"},
    "no rehash": as_hash,
    "one place": lambda options: options | {"places": 1},
    "no room": lambda options: options | {"room": 0},
    "no part": lambda options: options | {"first_come": True},
    # As ATP_CONGESTION=none, which leaves nothing to bound what is in flight.
    "no congestion control": lambda options: without("aimd", "ecn_bytes")(options) | {"room": 0},
    "no aggregation": lambda options: options | {"levels": 0},
}
INTACT = "intact"


def without_control(beside):
    def job_beside_flows(folder, atp, flows, direction, policy, *rest, **more):
        policy = "none" if policy == "aimd" else policy
        return beside(folder, atp, flows, direction, policy, *rest, **more)

    return job_beside_flows


def with_rules(change):
    """For Fig. 13a by real processes: `change` gets the rules, and the number of aggregators."""
    return lambda of: lambda scheme, n: change(of, n) if scheme == "ours" else of(scheme, n)


# By real processes, which have fewer options: what a fault makes of what REPLACED names.
REAL = {
    "13a-real": {
        "a static partition": with_rules(lambda of, n: of("static", n)),
        "one place": with_rules(
            lambda of, n: (of("ours", n)[0], ("--places", 1), of("ours", n)[2])
        ),
        "no congestion control": with_rules(lambda of, n: ("none", *of("ours", n)[1:])),
    },
    "13b-real": {
        "no rehash": lambda of: of | {"places": ("hash", *of["places"][1:])},
        "one place": lambda of: of | {"places": of["rehash"]},
    },
    "13c-real": {"a static partition": lambda of: of | {"dynamic": of["static"]}},
    "16a": {"no congestion control": without_control},
    "16b": {"no congestion control": without_control},
}
REPLACED = {
    "13a-real": (real_scarcity, "rules"),
    "13b-real": (real_switch, "SCHEMES"),
    "13c-real": (real_switch, "SHARING"),
    "16a": (shared_links, "job_beside_flows"),
    "16b": (shared_links, "job_beside_flows"),
}
KEYS = [
    *("9", "12", "13a", "13a-real", "13b", "13b-real", "13c", "13c-real"),
    *("14", "15", "16a", "16b", "20"),
]
# Why a figure does not notice some faults: the faults, and the reason.
ALIKE = "its jobs are alike and all keep the rules, so none takes more than its part"
REHASHED = "with 16 places there is nearly always a free one, whatever the index"
FIXED = "its windows are fixed, and there are aggregators for all"
EXPLAINED = {
    "13a-real": [
        (["a static partition"], "its jobs never pause, so the claim is that both are as fast"),
    ],
    "9": [
        (
            [fault for fault in FAULTS if fault != "no aggregation"],
            "there is one job, and more aggregators than it has fragments in flight",
        ),
    ],
    "12": [
        (
            ["a static partition", "no rehash", "one place", "no room", "no part"],
            "there are 1,024 aggregators for two windows of 200: a fragment that finds none, as "
            "some do with one place, gets another index",
        ),
        (["no congestion control"], FIXED),
    ],
    "13a": [
        (["no rehash"], REHASHED),
        (
            ["no room"],
            "the window of congestion control bounds what is in flight nearly as well: with a "
            "quarter of the aggregators 1.07 of a static partition's goodput instead of 1.08",
        ),
        (["no part"], ALIKE),
    ],
    "13b-real": [(["no rehash"], REHASHED)],
    "13b": [
        (["no rehash"], REHASHED),
        (["no room"], "there are as many aggregators as fragments in flight"),
        (["no part"], ALIKE),
        (["no congestion control"], FIXED),
    ],
    "13c": [
        (["no rehash"], REHASHED),
        (["no part"], ALIKE),
    ],
    "14": [
        (["a static partition"], "the figure's claim is that both are equally fast"),
        (["no rehash"], REHASHED),
        (["no room"], "there are as many aggregators as fragments in flight"),
        (["no part"], ALIKE),
    ],
    "15": [
        (["linear placement"], "the aggregators of one job's fragments follow one another"),
        (["no rehash"], REHASHED),
        (["no part"], "there is one job"),
    ],
    "20": [
        (
            ["a static partition", "no rehash", "one place", "no room", "no part"],
            "there are as many aggregators as fragments in flight, and indices that collide are "
            "exchanged: what the jobs share is links",
        ),
        (["no congestion control"], "two jobs hardly fill the queues of their links"),
    ],
}


class OneSeed(Size):
    @property
    def seeds(self):
        return [1]


class Played:
    """Contests that have been played: the same one gives the same result."""

    def __init__(self, play):
        self._play, self._results = play, {}

    def __call__(self, options):
        key = json.dumps(options, sort_keys=True)
        if key not in self._results:
            self._results[key] = self._play(options)
        return self._results[key]


def faults_of(key):
    return list(REAL.get(key, FAULTS))


@contextmanager
def planted(key, fault, played):
    """The product lacks a rule; what it is compared with does not."""
    change = FAULTS.get(fault, lambda options: options)
    module, name = contest, "play"

    def faulty(options):
        return played(options if options.get("paper") else change(options))

    if key in REAL:
        module, name = REPLACED[key]
        faulty = REAL[key].get(fault, lambda of: of)(getattr(module, name))
    intact = getattr(module, name)
    setattr(module, name, faulty)
    try:
        yield
    finally:
        setattr(module, name, intact)


def noticed(key, fault, played):
    """The checks that fail, in words."""
    (entry,) = find([key])
    with planted(key, fault, played):
        try:
            outcome = entry.run(OneSeed(quick=True))
        except ZeroDivisionError:
            return ["one job had done all its sums before another had done a third"]
        except RuntimeError as error:
            return [str(error)[:200]]
    plt.close(outcome.figure)
    return [str(check) for check in outcome.checks if not check.holds]


def explanation(key, fault):
    return next((why for faults, why in EXPLAINED.get(key, []) if fault in faults), None)


def cell(key, fault, failed):
    """What is wrong with a cell, or None."""
    if fault == INTACT:
        return f"Fig. {key}: {failed[0]}" if failed else None
    if not failed and not explanation(key, fault):
        return f"Fig. {key} does not notice {fault}, and nothing says why"
    return None


def stored(folder):
    """What run() has found: by figure and fault, the checks that failed."""
    path = folder / "faults.json"
    found = json.loads(path.read_text()) if path.exists() else {}
    return {key: found[key] for key in KEYS if key in found}


def run(keys, faults, folder):
    """Problems, in words; what was found is added to what is stored."""
    found, problems, at = stored(folder), [], store.commit()
    for key in keys:
        played = Played(contest.play)
        for fault in [INTACT, *faults_of(key)]:
            if fault != INTACT and fault not in faults:
                continue
            failed = noticed(key, fault, played)
            found.setdefault(key, {})[fault] = failed
            if set(faults_of(key)) <= set(faults):
                found[key]["commit"] = at
            said = f"notices: {failed[0]}" if failed else "does not notice"
            print(f"{key:5} {fault:22} {said}", flush=True)
            if problem := cell(key, fault, failed):
                problems.append(problem)
        (folder / "faults.json").write_text(json.dumps(found, indent=1) + "\n")
    return problems


def main(arguments=None):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.papers.faults", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--figure", action="append", choices=KEYS, help="only this one")
    parser.add_argument("--fault", action="append", choices=FAULTS, help="only this one")
    parser.add_argument("--out", type=results_folder, default="out/papers", metavar="FOLDER")
    options = parser.parse_args(arguments)
    problems = run(options.figure or KEYS, options.fault or list(FAULTS), options.out)
    for problem in problems:
        print(f"not as expected: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
