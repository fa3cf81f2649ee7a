"""What one figure or table of the papers is here: its claim, our result, and what must hold."""

import enum
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any


class State(enum.Enum):
    """How far this repository can show a figure."""

    REAL = "shown (real processes)"
    SIMULATED = "shown (simulated)"
    COMPUTED = "shown (computed)"
    NOT_SHOWN = "not shown"


@dataclass(frozen=True)
class Size:
    """How much to run: the quick form has the same shape from less data."""

    quick: bool = False

    @property
    def seeds(self):
        return [1, 2] if self.quick else [1, 2, 3, 4, 5]

    def timed(self, *checks):
        """Checks of wall-clock times: the quick form, which may run beside anything, has none."""
        return [] if self.quick else list(checks)

    def of(self, quick, full):
        return quick if self.quick else full


@dataclass(frozen=True)
class Check:
    """One property of a figure's shape: a number, and the band in which it must be."""

    what: str
    value: float
    low: float = float("-inf")
    high: float = float("inf")

    @property
    def holds(self):
        return self.low <= self.value <= self.high

    def __str__(self):
        return f"{self.what}: {self.value:.4g}, expected {self.band}"

    @property
    def band(self):
        if self.high == float("inf"):
            return f"at least {self.low:g}"
        if self.low == float("-inf"):
            return f"at most {self.high:g}"
        return f"{self.low:g} to {self.high:g}" if self.low != self.high else f"{self.low:g}"


@dataclass
class Outcome:
    """What a run of an entry has found."""

    ours: str  # in words, every number computed by this run
    rows: list[dict]
    spread: str  # of the repetitions, or why there is none
    checks: list[Check] = field(default_factory=list)
    figure: Any = None  # of matplotlib


@dataclass(frozen=True)
class Entry:
    """A figure or table of a paper.

    `holds` says in a word or two whether the paper's claim holds here. An entry that is not shown
    has no `run`; its `why` is the reason.
    """

    key: str  # for --figure
    title: str
    claim: str  # the paper's, with its set-up
    state: State
    why: str  # ours and the paper's differ, or ours is not shown
    setup: str = ""  # ours
    holds: str = ""
    run: Callable[[Size], Outcome] | None = None


def mean_of(values):
    return sum(values) / len(values)


def spread_of(values):
    """Half of the distance between the extremes, relative to the mean."""
    return (max(values) - min(values)) / 2 / mean_of(values) if mean_of(values) else 0.0


def summary(rows, by, columns, middle=mean_of, counted="seeds"):
    """A row per combination of the columns `by`: middle, least and most of `columns`."""
    groups = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    made = []
    for key, group in groups.items():
        row = dict(zip(by, key, strict=True))
        for name in columns:
            values = [one[name] for one in group]
            row[name] = middle(values)
            row[f"{name}_least"], row[f"{name}_most"] = min(values), max(values)
        made.append(row | {counted: len(group)})
    return made


def largest_spread(rows, column):
    """The largest relative spread of a summary's column, as words."""
    most = max(
        ((r[f"{column}_most"] - r[f"{column}_least"]) / 2 / r[column] for r in rows if r[column]),
        default=0.0,
    )
    return f"{rows[0]['seeds']} seeds, at most ±{most:.1%}"
