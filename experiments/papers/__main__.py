"""Every figure and table of both papers, ours beside theirs.

    .venv/bin/python -m experiments.papers [--figure KEY]... [--quick] [--again] [--out FOLDER]
    .venv/bin/python -m experiments.papers --list

Runs the entries (experiments/papers/registry.py) and stores a result of each in FOLDER (default:
out/papers): KEY.json with the commit, KEY.csv and KEY.svg, and index.md of all. A result of the
same commit and size is not run again, unless --again is given, so an interrupted run continues
where it stopped. Each run asserts the shape of its figure: orders, crossings, and factors within
stated bands. --quick uses less data; --page also writes a page with its pictures, for
docs/results/papers.md. Exit code 1: a shape does not hold or an entry failed; the last lines name
them.
"""

import argparse
import shutil
import sys
import time
from pathlib import Path

from experiments import report
from experiments.papers import faults, page, store
from experiments.papers.entry import Size
from experiments.papers.registry import ENTRIES, find
from lab.results import results_folder


def show_list():
    for entry in ENTRIES:
        print(f"{entry.key:9} {entry.state.value:23} {entry.title}")


def run_one(entry, size, folder, at):
    """The result, stored; or the words of an error."""
    begin = time.monotonic()
    try:
        outcome = entry.run(size)
    except (Exception, SystemExit) as error:  # one entry's failure does not end the others
        return None, f"{entry.title}: {type(error).__name__}: {error}"
    return store.save(folder, entry, size, outcome, time.monotonic() - begin, at), None


def run_all(entries, size, folder, again):
    """Problems, in words."""
    at, problems = store.commit(), []
    wanted = [entry for entry in entries if entry.run]
    for number, entry in enumerate(wanted, 1):
        print(f"[{number}/{len(wanted)}] {entry.title}", flush=True)
        found = None if again else store.load(folder, entry)
        if found and (found["commit"], found["quick"]) == (at, size.quick):
            print(f"  as stored, commit {at}; --again runs it again", flush=True)
        else:
            found, error = run_one(entry, size, folder, at)
            if error:
                print(f"  FAILED: {error}", flush=True)
                problems.append(error)
                continue
        print(f"  ours: {found['ours']}\n  {found['seconds']} s; {found['spread']}", flush=True)
        for check in store.failed(found):
            print(f"  SHAPE: {check}", flush=True)
            problems.append(f"{entry.title}: {check}")
    return problems


def write_page(path, folder):
    """A page beside a folder of its pictures, which has the page's name."""
    results = {e.key: found for e in ENTRIES if e.run and (found := store.load(folder, e))}
    pictures = path.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    for key in results:
        shutil.copyfile(folder / f"{key}.svg", pictures / f"{key}.svg")
    planted = faults.stored(folder)
    path.write_text(page.contents(results, pictures.name, planted))
    tables = {
        "checks": page.checks(results),
        "runs": page.runs(results),
        "blanks": page.blanks(planted),
    }
    for name, rows in tables.items():
        if rows:
            report.write_table(pictures / f"{name}.csv", rows)
    print(f"wrote {path}")


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="python -m experiments.papers", description=__doc__.splitlines()[0]
    )
    parser.add_argument(
        "--figure", action="append", metavar="KEY", help="only this entry; may be repeated"
    )
    parser.add_argument("--quick", action="store_true", help="less data: only the shapes")
    parser.add_argument("--again", action="store_true", help="run entries that are stored, too")
    parser.add_argument("--list", action="store_true", help="list the entries, and run none")
    parser.add_argument(
        "--out",
        type=results_folder,
        default="out/papers",
        metavar="FOLDER",
        help="folder for the results (default: out/papers)",
    )
    parser.add_argument("--page", type=Path, metavar="FILE.md", help="also write this page")
    options = parser.parse_args(arguments)
    try:
        options.entries = find(options.figure)
    except KeyError as error:
        parser.error(f"--figure: expected a key that --list shows, found {error.args[0]!r}")
    return options


def main(arguments=None):
    options = parse(arguments)
    if options.list:
        show_list()
        return 0
    begin = time.monotonic()
    problems = run_all(options.entries, Size(options.quick), options.out, options.again)
    print(f"took {time.monotonic() - begin:.0f} s", flush=True)
    write_page(options.out / "index.md", options.out)
    if options.page:
        write_page(options.page, options.out)
    for problem in problems:
        print(f"not as expected: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
