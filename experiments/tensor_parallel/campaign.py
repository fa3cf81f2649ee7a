"""What experiments on several testbeds share: the command line, the results' file, and the exit."""

import argparse
import json
from collections.abc import Callable

from experiments import report
from lab.results import results_folder


def run(
    doc: str,
    name: str,
    testbeds: list,
    tiny,
    measure: Callable,
    show: Callable,
    shortfalls: Callable,
    plot: Callable,
    confirmed: str,
    on_request: tuple = (),
) -> int:
    """Measures the testbeds that the command line names; returns the program's exit status.

    doc: the experiment's description. name: of its files, FOLDER/name.json and FOLDER/name.svg.
    tiny: a testbed for tests, which runs only if it is named, as do those of on_request.
    measure(testbed, rounds) returns the testbed's results, which show(testbed, results) prints and
    plot({name: results}) draws. shortfalls(testbed, results): a sentence for each prediction that
    does not hold; `confirmed` is printed if there are none.
    """
    parser = argparse.ArgumentParser(prog=report.program(), description=doc.splitlines()[0])
    parser.add_argument(
        "--only", help="only the testbed whose name starts with this; 'tiny' for a test"
    )
    parser.add_argument("--rounds", type=int, default=5, help="timed rounds (default: 5)")
    parser.add_argument(
        "--out",
        type=results_folder,
        default=str(report.REPOSITORY / "docs/plan/tensor-parallel"),
        help="folder for the results (default: docs/plan/tensor-parallel)",
    )
    arguments = parser.parse_args()
    named = [*testbeds, *on_request, tiny] if arguments.only else testbeds
    chosen = [t for t in named if t.name.startswith(arguments.only or "")]
    if not chosen:
        known = ", ".join(repr(t.name) for t in [*testbeds, *on_request])
        parser.error(f"no testbed's name starts with {arguments.only!r}; the testbeds are {known}")
    file, results, wrong = arguments.out / f"{name}.json", {}, []
    if arguments.only and file.exists():
        results = json.loads(file.read_text())
    for testbed in chosen:
        found = results[testbed.name] = measure(testbed, arguments.rounds)
        show(testbed, found)
        wrong += [f"{testbed.name}: {one}" for one in shortfalls(testbed, found)]
    file.write_text(json.dumps(results, indent=1) + "\n")
    report.save(plot(results), arguments.out / f"{name}.svg")
    print("\n".join(["", *(wrong or [confirmed])]))
    return 1 if wrong else 0


def finish_axes(axes, name: str, unit: str) -> None:
    """The frame of one testbed's bars."""
    axes.set_title(name, fontsize=10)
    axes.set_ylabel(unit)
    axes.set_ylim(top=axes.get_ylim()[1] * 1.08)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#dddddd", linewidth=0.6, axis="y")
    axes.set_axisbelow(True)
