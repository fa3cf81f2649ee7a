"""What experiments share: the programs that they run, and how they tell what they found.

An experiment is a module, run from the root of the repository:

    .venv/bin/python -m experiments.sharing.fig14 [FOLDER]
"""

import argparse
import csv
import os
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

from lab.results import results_folder

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))

plt.switch_backend("svg")
# Else the parts of one figure get other names each time that it is drawn.
plt.rcParams["svg.hashsalt"] = "atp"


def parser(text, folder):
    """Of the command line: what the experiment is, by its docstring, and where results go."""
    words = argparse.ArgumentParser(description=text.splitlines()[0])
    words.add_argument(
        "folder",
        nargs="?",
        type=results_folder,
        default=folder,
        help=f"of the results (default: {folder})",
    )
    return words


def publish(path, rows, figure):
    """Writes `path`.csv, one line for each of `rows`, and `path`.svg, and says so."""
    table, picture = Path(f"{path}.csv"), Path(f"{path}.svg")
    table.parent.mkdir(parents=True, exist_ok=True)
    with open(table, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    save(figure, picture)
    print(f"written: {table}, {picture}")


def save(figure, path):
    """The same bytes for the same figure."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def verdict(paper, ours, why):
    """Three wrapped paragraphs: what the paper says, what we find, why they differ."""
    return "\n".join(
        textwrap.fill(text, 98, initial_indent=f"{name + ':':7}", subsequent_indent=" " * 7)
        for name, text in (("paper", paper), ("ours", ours), ("why", why))
    )


def jain(shares):
    """Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
