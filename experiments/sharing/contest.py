"""Runs the program sharing_contest (main.cc) of build/release, or of the build in ATP_BUILD.

One contest is jobs that share one switch and one server in the simulator; every sum of every rank
is checked in the same run, and a wrong one, or anything left over, is an error here.
"""

import csv
import json
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

from experiments.report import jain  # noqa: E402

BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))
PARALLEL = 2


def play(options):
    """The result of one contest; options as the program has them, without the dashes."""
    command = [str(BUILD / "bin" / "sharing_contest")]
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is not False:
            command += [flag] if value is True else [flag, str(value)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(command)} ended with {done.returncode}: {done.stdout}{done.stderr}"
        )
    result = json.loads(done.stdout)
    result["total"] = sum(result["goodput"])
    result["jain"] = jain(result["goodput"])
    return result


def play_all(contests):
    """Several at a time; results in the order of the contests."""
    with ThreadPoolExecutor(PARALLEL) as pool:
        return list(pool.map(play, contests))


def static_partition(options, regions):
    """SwitchML's way: a job counts through a region of its own, and has no more in flight."""
    region = options["aggregators"] // regions
    return {**options, "partition": True, "placement": "linear", "window": region}


def verdict(paper, ours, why):
    """Three wrapped paragraphs: what the paper says, what we find, why they differ."""
    return "\n".join(
        textwrap.fill(text, 98, initial_indent=f"{name + ':':7}", subsequent_indent=" " * 7)
        for name, text in (("paper", paper), ("ours", ours), ("why", why))
    )


def write_csv(path, rows):
    with open(path, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
