"""The common parts of experiments: the programs they run, and how they report results.

An experiment is a module that runs from the root of the repository:

    .venv/bin/python -m experiments.sharing.fig14 [FOLDER]
"""

import argparse
import csv
import os
import sys
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

from lab.results import results_folder

REPOSITORY = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("ATP_BUILD", REPOSITORY / "build" / "release"))

plt.switch_backend("svg")
# Otherwise the elements of a figure get different ids each time it is drawn.
plt.rcParams["svg.hashsalt"] = "atp"


def program():
    """How a user started this: "python -m experiments.sharing.fig14"."""
    spec = sys.modules["__main__"].__spec__
    return "python -m " + spec.name.removesuffix(".__main__") if spec else None


def parser(text, folder):
    """A command line parser with the experiment's docstring and a results folder."""
    words = argparse.ArgumentParser(prog=program(), description=text.partition("\n\n")[0])
    words.add_argument(
        "folder",
        nargs="?",
        type=results_folder,
        default=folder,
        help=f"folder for the results (default: {folder})",
    )
    return words


def publish(path, rows, figure):
    """Writes `path`.csv, with a line per row, and `path`.svg, and prints their names."""
    table, picture = Path(f"{path}.csv"), Path(f"{path}.svg")
    table.parent.mkdir(parents=True, exist_ok=True)
    write_table(table, rows)
    save(figure, picture)
    print(f"wrote {table}, {picture}")


def write_table(path, rows):
    with open(path, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def save(figure, path):
    """Saves a figure reproducibly: the same bytes for the same figure."""
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def verdict(paper, ours, why):
    """Three wrapped paragraphs: the paper's result, ours, and why they differ."""
    return "\n".join(
        textwrap.fill(text, 98, initial_indent=f"{name + ':':7}", subsequent_indent=" " * 7)
        for name, text in (("paper", paper), ("ours", ours), ("why", why))
    )


def jain(shares):
    """Jain's index of fairness: 1 if all shares are equal, 1/n if one has everything."""
    if not any(shares):
        return 0.0
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
