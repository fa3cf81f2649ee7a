"""Compares the simulator with ns-3: the same packets, links and queues in both.

    make ns3
    .venv/bin/python -m experiments.ns3 [--only WORDS]

Where the two have the same rules, every packet and every sum has to arrive at the same picosecond,
and the same ones have to be marked and lost. Where a rule differs by a part of a packet, figures
may differ by 2 %, and where it differs by more, they have no bound. Prints a line per figure; exit
status 1: one is beyond its bound.
"""

import argparse
import sys

from experiments.ns3 import all_reduces, packets
from experiments.ns3.comparison import Missing
from experiments.report import program

PARTS = {
    "all-reduces without congestion": all_reduces.without_congestion,
    "packets without congestion": packets.without_congestion,
    "all-reduces, queues that mark": all_reduces.with_marks,
    "packets, queues of whole packets": packets.of_whole_packets,
    "all-reduces, packets that arrive as others leave": all_reduces.with_ties,
    "packets, queues of any length": packets.with_losses,
    "packets, other rules": packets.with_other_rules,
}
COLUMNS = "{:49}  {:31} {:>15} {:>15} {:>9}"


def row(found):
    equal = "equal" if found.difference == 0 else f"{found.difference:+.3%}"
    several = f"  largest of {len(found.ours)} runs" if len(found.ours) > 1 and found.bound else ""
    wrong = "" if found.holds else f"  BEYOND {100 * found.bound:g}%"
    figures = [f"{value:,.3f}".rstrip("0").rstrip(".") for value in found.means]
    return COLUMNS.format(found.scenario, found.what, *figures, equal) + several + wrong


def compare(parts):
    """Prints a table per part; returns how many comparisons are beyond their bounds."""
    beyond = 0
    for name, part in parts.items():
        print(f"\n{COLUMNS.format(name, '', 'ours', 'ns-3', '')}".rstrip())
        for found in part():
            beyond += not found.holds
            print(row(found), flush=True)
    return beyond


def main(words=None):
    parser = argparse.ArgumentParser(prog=program(), description=__doc__.partition("\n\n")[0])
    parser.add_argument("--only", default="", metavar="WORDS", help="only parts with these words")
    only = parser.parse_args(words).only
    parts = {name: part for name, part in PARTS.items() if only in name}
    if not parts:
        parser.error(f"--only: expected a part of {', '.join(PARTS)}, found '{only}'")
    try:
        beyond = compare(parts)
    except Missing as problem:
        sys.exit(f"{parser.prog}: {problem}")
    if beyond:
        sys.exit(f"\n{beyond} figures are beyond their bounds")
    print("\nall within their bounds")


if __name__ == "__main__":
    main()
