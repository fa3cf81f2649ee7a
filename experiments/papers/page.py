"""docs/results/papers.md, made from stored results."""

import re
import textwrap

from experiments.papers import faults, store
from experiments.papers.entry import Check, State
from experiments.papers.registry import ENTRIES, INA, TP, find

_INTRODUCTION = (
    "This page puts the results of two papers beside ours. The first is *ATP: In-network "
    "Aggregation for Multi-tenant Learning* (NSDI '21), called *in-network* below. The second is "
    "*ATP: Adaptive Tensor Parallelism for Foundation Models*, called *tensor*. `make papers` runs "
    "every figure that can be run here. With `ARGS='--page docs/results/papers.md'` it also writes "
    "this page, and with `ARGS='--figure 14'` it runs one figure. The runs on this page took "
    "{minutes} minutes on two cores, many of them beside other work; `ARGS=--quick` runs the quick "
    "form, which measures less, in six. Each run checks the shape of its figure: which system is "
    "ahead, where curves cross, and whether factors are within the bands of "
    "[checks.csv]({pictures}/checks.csv); [runs.csv]({pictures}/runs.csv) has its set-up, commit, "
    "duration and spread. A figure that needs a Tofino or GPUs is *not shown*. Where a paper's "
    "text gives numbers, our picture includes them."
)
_STATES = (
    "A figure is shown in one of three ways. *Real processes* are the product, in network "
    "namespaces or on loopback, and every element of every sum is checked. *Simulated* means the "
    "product's own worker, switch and server in a simulated network; some of these figures have a "
    "second entry, by real processes. *Computed* means arithmetic, on real gradients or by the "
    "planner. The *standard hosts* of simulated figures have links of 100 Gbit/s with a delay of 1 "
    "µs, and need 18 ns per packet. A packet has 62 values (362 bytes on the wire), and every sum "
    "is checked. The *static pool*, *parameter servers* and *ring* are not the product, but "
    "separate models of SwitchML, BytePS and Horovod. *The paper's rules* are the product with one "
    "aggregator for a fragment, first come, first served, and without a room; its workers repeat, "
    "and halve their windows, as the paper's do (docs/results/sharing.md). A *static partition* is "
    "the product with a region for each job and, by these rules, a window of that size."
)
# Claim of the abstract or introduction, and the entry that answers it.
HEADLINES = [
    ("One job trains 1.24 to 8.7 times as fast as with other systems", "8"),
    (
        "Under contention dynamic sharing is 38 % better than static; with half of the aggregators "
        "it loses 5 to 10 %",
        "13a",
    ),
    ("Two levels of switches save two thirds of the traffic at the server", "9"),
    ("Up to 0.1 % loss costs nothing, and recovery is 34 % better", "10"),
    ("Congestion control makes a job 3 times as fast", "15"),
    ("Training is 37 % to 64 % faster than with Megatron-LM", "tp-10"),
]


def wrapped(text):
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


def spaced(text):
    """With a space before each percent sign, as on all our pages."""
    return re.sub(r"(?<=\d)%", " %", text)


def item(name, text):
    return textwrap.fill(
        f"* **{name}**: {spaced(text)}",
        120,
        subsequent_indent="  ",
        break_long_words=False,
        break_on_hyphens=False,
    )


def short(entry):
    """The title without the paper's section and the subject."""
    return entry.title.split(":")[0].split(",")[0]


def anchor(entry):
    """As a link within the page, by the heading that GitHub makes of the title."""
    return f"[{short(entry)}](#{slug(entry.title)})"


def slug(title):
    kept = "".join(c for c in title.lower() if c.isalnum() or c in " -")
    return kept.replace(" ", "-")


def verdict(entry, found):
    """The author's reading of a figure, as long as the shape that it rests on holds."""
    if entry.state is State.NOT_SHOWN:
        return "–"
    if found is None:
        return "not run yet"
    broken = "; ".join(map(str, store.failed(found)))
    return f"not in this run: {broken}" if broken else entry.holds


def section(entry, found, pictures):
    lines = [f"### {entry.title}", "", item("the paper", entry.claim)]
    if entry.state is State.NOT_SHOWN:
        return [*lines, item("ours", f"not shown: {entry.why}"), ""]
    if found is None:
        return [
            *lines,
            item("ours", "not run yet"),
            item("why they differ", entry.why),
            "",
        ]
    lines += [
        item(f"ours, {entry.state.value.removeprefix('shown ').strip('()')}", found["ours"]),
        item("why they differ", entry.why),
    ]
    return [*lines, "", f"![{short(entry)}]({pictures}/{entry.key}.svg)", ""]


_FAULTS = (
    "`.venv/bin/python -m experiments.papers.faults` takes one rule away from the product, and "
    "leaves what it is compared with as it is. *Yes* means that a check of the figure's quick "
    "form, with one seed, then fails. From real processes (Fig. 16, and those with *real*) fewer "
    "rules can be taken away: the others have a dash. [blanks.csv]({pictures}/blanks.csv) says why "
    "a cell is blank."
)


def faults_section(found, pictures="papers"):
    """`found`: by figure and fault, the checks that failed."""
    keys = list(found)
    lines = [
        "## What the figures of sharing notice",
        "",
        wrapped(_FAULTS.format(pictures=pictures)),
        "",
    ]
    lines += ["| the product has | " + " | ".join(f"Fig. {key}" for key in keys) + " |"]
    lines += ["|---" * (len(keys) + 1) + "|"]
    for fault in faults.FAULTS:
        cells = [
            "–" if fault not in found[key] else "yes" if found[key][fault] else " " for key in keys
        ]
        lines.append(f"| {fault} | {' | '.join(cells)} |")
    commits = [found[key].get("commit", "earlier") for key in keys]
    lines.append(f"| (run at commit) | {' | '.join(commits)} |")
    return [*lines, ""]


def blanks(found):
    """Why a cell of that table is blank: a table's rows."""
    return [
        {"figure": key, "fault": fault, "not noticed, because": faults.explanation(key, fault)}
        for key in found
        for fault in faults.FAULTS
        if found[key].get(fault) == []
    ]


def checks(results):
    """Every check of the stored results: a table's rows."""
    return [
        {"figure": key, "checked": one.what, "value": f"{one.value:.4g}", "expected": one.band}
        for key, found in results.items()
        for one in (Check(**each) for each in found["checks"])
    ]


def runs(results):
    """Where the stored results come from: a table's rows."""
    return [
        {
            "figure": key,
            "form": "quick" if found["quick"] else "full",
            "seconds": round(found["seconds"]),
            "commit": found["commit"],
            "spread": spaced(found["spread"]),
            "set-up": spaced(find([key])[0].setup),
        }
        for key, found in results.items()
    ]


def contents(results, pictures="papers", planted=None):
    """The page; `results` are stored results by key, `planted` what faults.py has stored."""
    took = sum(found["seconds"] for found in results.values())
    lines = [
        "# Both papers, figure by figure",
        "",
        wrapped(_INTRODUCTION.format(minutes=round(took / 60), pictures=pictures)),
        "",
        wrapped(_STATES),
        "",
    ]
    by_key = {entry.key: entry for entry in ENTRIES}
    lines += ["## The headline claims", ""]
    lines += ["| the papers say | does it hold here | entry |", "|---|---|---|"]
    for claim, key in HEADLINES:
        found, entry = results.get(key), by_key[key]
        said = "not shown" if entry.run is None else verdict(entry, found)
        lines.append(f"| {claim} | {said} | {anchor(entry)} |")
    lines += ["", "## All entries", ""]
    above = {key for _, key in HEADLINES}
    for name, entries in (("in-network", INA), ("tensor", TP)):
        lines += [f"| {name} | here | does the claim hold |", "|---|---|---|"]
        for entry in entries:
            found = results.get(entry.key)
            said = "see above" if entry.key in above else verdict(entry, found)
            here = entry.state.value.removeprefix("shown ").strip("()")
            lines.append(f"| {anchor(entry)} | {here} | {said} |")
        lines.append("")
    lines += faults_section(planted, pictures) if planted else []
    for title, entries in (("In-network aggregation (ATP)", INA), ("Tensor parallelism", TP)):
        lines += [f"## {title}", ""]
        for entry in entries:
            lines += section(entry, results.get(entry.key), pictures)
    return "\n".join(lines).rstrip() + "\n"
