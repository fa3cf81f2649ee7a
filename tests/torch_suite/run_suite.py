"""Runs torch's tests of a backend and writes how each ended.

    PYTHONPATH=python .venv/bin/python tests/torch_suite/run_suite.py --backend atp --ranks 3

With --file it runs a test file of torch's repository instead, which decides on the number of ranks.
Without a route the ranks of this host sum in memory that they share; ATP_ROUTE and
ATP_HOST_MEMORY=0 take them to a switch, ATP_ALGORITHM=ring around a ring.
"""

import argparse
import json
import logging
import os
import sys
import time
import unittest
from pathlib import Path


def main() -> int:
    options = _options()
    os.environ["ATP_SUITE_BACKEND"] = options.backend
    os.environ["WORLD_SIZE"] = str(options.ranks)
    os.environ.setdefault("TEMP_DIR", options.folder)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # The server that forks the ranks imports the suite as well, and has no other path to it.
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    os.environ["PYTHONPATH"] = os.pathsep.join([folder, os.environ.get("PYTHONPATH", "")])
    logging.disable(logging.INFO)

    chosen = [test for test in _tests(options.file) if options.only in test.id()]
    outcomes = _Outcomes(len(chosen), parts_of_name=2 if options.file else 1)
    unittest.TestSuite(chosen).run(outcomes)
    report = json.dumps(outcomes.ended, indent=1)
    if options.output:
        Path(options.output).write_text(report)
    else:
        print(report)
    counts = {}
    for outcome, _ in outcomes.ended.values():
        counts[outcome] = counts.get(outcome, 0) + 1
    what = Path(options.file).name if options.file else f"{options.ranks} ranks"
    print(f"{options.backend}, {what}: {counts}", file=sys.stderr)
    return int("failed" in counts)


def _tests(file: str | None) -> list[unittest.TestCase]:
    load = unittest.defaultTestLoader
    if file is None:
        import suite

        return list(load.loadTestsFromTestCase(suite.Suite))
    os.environ["ATP_SUITE_FILE"] = str(Path(file).resolve())
    import torch_file

    return [
        test
        for found in vars(torch_file).values()
        if isinstance(found, type) and issubclass(found, unittest.TestCase)
        if found.__module__ == torch_file.__name__
        for test in load.loadTestsFromTestCase(found)
    ]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", choices=["atp", "gloo"], default="atp")
    parser.add_argument("--ranks", type=int, default=3, metavar="N", help="world size (default: 3)")
    parser.add_argument("--file", metavar="FILE", help="a test file of torch's repository")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="only tests with TEXT in their name"
    )
    parser.add_argument("--output", metavar="FILE", help="write the outcomes to FILE (JSON)")
    parser.add_argument("--folder", default="/tmp", help="where the tests keep their files")
    return parser.parse_args()


class _Outcomes(unittest.TestResult):
    """Per test "passed", "skipped" or "failed", and why.

    parts_of_name: 2 if the classes are part of the tests' names, as a file may have one for each
        backend.
    """

    def __init__(self, tests: int, parts_of_name: int):
        super().__init__()
        self._parts_of_name = parts_of_name
        self.ended: dict[str, tuple[str, str]] = {}
        self._tests = tests

    def startTest(self, test):
        super().startTest(test)
        self._begin = time.monotonic()

    def addSuccess(self, test):
        self._end(test, "passed", "")

    def addSkip(self, test, reason):
        self._end(test, "skipped", reason)

    def addFailure(self, test, err):
        self._end(test, "failed", self._exc_info_to_string(err, test))

    addError = addFailure

    def addExpectedFailure(self, test, err):
        self._end(test, "passed", "")

    def addUnexpectedSuccess(self, test):
        self._end(test, "failed", "should have failed")

    def _end(self, test, outcome, why):
        name = ".".join(test.id().split(".")[-self._parts_of_name :])
        # A test that passed and then failed to clean up has failed.
        self.ended[name] = (outcome, why)
        seconds = time.monotonic() - self._begin
        if outcome != "skipped":
            place = f"[{len(self.ended)}/{self._tests}]"
            print(f"{place} {outcome:7} {seconds:5.1f} s  {name}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
