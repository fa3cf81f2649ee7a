#!/usr/bin/env python3
"""make demo: trains a model twice, with gradients summed in the network and then by Gloo.

    examples/demo/demo.py            all 60,000 images, two epochs: a few minutes
    examples/demo/demo.py --short    a quarter of the images, one epoch

Starts a switch, a server and 4 workers on this machine, compares the two runs, draws
out/demo/demo.png, and fails if a check fails.
"""

import argparse
import os
import pathlib
import sys

CHECKOUT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("ATP_BUILD", CHECKOUT / "build/release"))
sys.path.insert(0, str(CHECKOUT))

import comparison  # noqa: E402
import fashion_mnist  # noqa: E402
import figure  # noqa: E402
import job  # noqa: E402

from lab.entry import enter  # noqa: E402
from lab.results import results_folder  # noqa: E402

FULL = comparison.Expectation(images=60_000, epochs=2, accuracy=0.84)
# One pass over a quarter of the images, all of it warm-up, reaches a lower accuracy.
SHORT = comparison.Expectation(images=15_360, epochs=1, accuracy=0.55)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="fewer images, for automated tests")
    parser.add_argument(
        "--out",
        type=results_folder,
        default=str(CHECKOUT / "out/demo"),
        help="folder for the results (default: out/demo)",
    )
    arguments = parser.parse_args()
    program = BUILD / "bin/atp"
    if not program.exists():
        return complain(f"{program} is missing; `make demo` builds it")
    if not fashion_mnist.is_installed():
        return complain(
            f"no data set in {fashion_mnist.FOLDER}; install it: apt-get install "
            "dataset-fashion-mnist"
        )

    expected = SHORT if arguments.short else FULL
    print(
        f"Training a CNN on {expected.images:,} images of Fashion-MNIST, {expected.epochs} "
        f"epoch{'s' * (expected.epochs > 1)}, {job.WORKERS} workers on this machine.\n"
    )
    runs = {}
    for backend in ("atp", "gloo"):
        try:
            runs[backend] = job.run(program, backend, expected, arguments.out / backend)
        except job.JobFailed as error:
            return complain(str(error))

    result = comparison.Comparison(runs["atp"], runs["gloo"], expected)
    print("\n" + result.table())
    picture = arguments.out / "demo.png"
    figure.draw(runs["atp"], runs["gloo"], picture)
    print(f"\nLoss and share summed in the switch over time: {os.path.relpath(picture)}")
    return report(result)


def report(result: comparison.Comparison) -> int:
    failed = [check for check in result.checks() if not check.passed]
    for check in failed:
        print(f"demo: FAILED: {check.what}", file=sys.stderr)
    if not failed:
        print(f"All {len(result.checks())} checks passed.")
    return 1 if failed else 0


def complain(message: str) -> int:
    print(f"demo: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    enter(main)
