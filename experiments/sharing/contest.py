"""Runs the program sharing_contest (main.cc).

A contest simulates jobs that share one switch and one server. Every sum of every rank is checked in
the same run; a wrong sum, or anything left over, is an error.
"""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor

from experiments.report import BUILD, jain

PARALLEL = 2


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


def measure(cases, options_of):
    """A row per case, with the result of the contest with `options_of(**case)`."""
    results = play_all([options_of(**case) for case in cases])
    return [{**case, **numbers(result)} for case, result in zip(cases, results, strict=True)]


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


def static_partition(options, regions):
    """SwitchML's scheme: a job cycles through its own region, which limits its window."""
    region = options["aggregators"] // regions
    return {**options, "partition": True, "placement": "linear", "window": region}


def plot_goodput(axes, rows, schemes):
    """Draws a line per scheme (name: label), from plenty of aggregators to few."""
    for scheme, label in schemes.items():
        mine = [row for row in rows if row["scheme"] == scheme]
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
