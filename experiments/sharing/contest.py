"""Runs the program sharing_contest (main.cc).

A contest simulates jobs that share one switch and one server. Every sum of every rank is checked in
the same run; a wrong sum, or anything left over, is an error.
"""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

from experiments.report import BUILD, jain

PARALLEL = 2
# The paper's own rules: one aggregator for a fragment, no part for a job, no room; every repeat is
# a RESEND, three answers to other fragments are a loss at once, and a mark halves the window.
PAPER = {"paper": True}
SCHEMES = {"ours": "ours", "paper": "the paper's rules", "static": "static partition"}


def play(options):
    """The result of one contest; the options are the program's, without dashes."""
    command = [str(BUILD / "bin" / "sharing_contest")]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is not False:
            command += [flag] if value is True else [flag, str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} exited with code {done.returncode}: {done.stdout}{done.stderr}"
        )
    return json.loads(done.stdout)


def play_all(contests):
    """Runs contests in parallel; results are in their order."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(play, contests))


def goodput_together(result, fragments):
    """By job, over the last two thirds of the time until the first of them has done all its sums.

    For jobs of unlike speeds, which may never all have done a third of their operations.
    """
    end = min(job[-1] for job in result["completed_ps"])
    done = [sum(end / 3 < ps <= end for ps in job) for job in result["completed_ps"]]
    return [count * fragments * 62 * 32 / (end * 2 / 3) * 1000 for count in done]


def measure(cases, options_of, seeds=(1,)):
    """A row per case and seed, with the result of the contest with `options_of(**case)`."""
    runs = [(case, seed) for case in cases for seed in seeds]
    results = play_all([{**options_of(**case), "seed": seed} for case, seed in runs])
    return [
        {**case, "seed": seed, **numbers(result)}
        for (case, seed), result in zip(runs, results, strict=True)
    ]


def numbers(result):
    """The columns for a contest, over all its jobs."""
    return {
        "goodput_gbit": round(sum(result["goodput"]), 2),
        "share_in_switch": round(result["share_in_switch"], 4),
        "packets_to_server": round(result["packets_to_server"], 3),
        "jain": round(jain(result["goodput"]), 4),
    }


def congestion_control(options, window):
    """The product's defaults; queues mark at 40 kB and above."""
    return {**options, "window": window, "aimd": True, "ecn_bytes": 40_000}


def papers_rules(options, window):
    return congestion_control({**options, **PAPER}, window)


def static_partition(options, regions):
    """SwitchML's scheme: a job cycles through its own region, which limits its window.

    A window is a power of two: a region of 96 has one of 64.
    """
    region = options["aggregators"] // regions
    window = 1 << (region.bit_length() - 1)
    return {**options, **PAPER, "partition": True, "placement": "linear", "window": window}


def sharing(scheme, options, window):
    """The options of one of SCHEMES; `window` is the largest, but in a static partition."""
    if scheme == "static":
        return static_partition(options, options["jobs"])
    return (congestion_control if scheme == "ours" else papers_rules)(options, window)


def over_static(rows, scheme, **at):
    """How much better than the static partition a scheme is, over the seeds of its rows."""
    here = [row for row in rows if all(row[name] == value for name, value in at.items())]
    pairs = [[row for row in here if row["scheme"] == name] for name in (scheme, "static")]
    return [a["goodput_gbit"] / b["goodput_gbit"] for a, b in zip(*pairs, strict=True)]


def mean_and_span(numbers):
    return f"{sum(numbers) / len(numbers):.4g} ({min(numbers):.4g} to {max(numbers):.4g})"


def plot_goodput(axes, rows, schemes):
    """Draws a line per scheme (name: label), from plenty of aggregators to few."""
    for scheme, label in schemes.items():
        mine = [row for row in rows if row["scheme"] == scheme and row["seed"] == 1]
        axes.plot(
            [row["aggregators"] for row in mine],
            [row["goodput_gbit"] for row in mine],
            marker="o",
            ls="--" if scheme == "static" else "-",
            label=label,
        )
    ticks = sorted({row["aggregators"] for row in rows}, reverse=True)
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.invert_xaxis()
    axes.set(xlabel="aggregators", ylim=(0, None))
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
