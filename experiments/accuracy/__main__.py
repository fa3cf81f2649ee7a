"""How accurate are the sums, and does that affect training? For docs/results/accuracy.md.

    .venv/bin/python -m experiments.accuracy [FOLDER] [--short] [--only picture|training]

The picture: blocks with values of all magnitudes are summed over atp and over Gloo, by 4 and 8
ranks; it shows the largest relative error by a value's size within its block. The training runs: a
CNN and a small GPT, in float32 and bfloat16, with three seeds and four kinds of sums. The tables
have final losses and accuracies, and how often a nonzero element of a real gradient becomes zero.
Everything runs on this machine's loopback. It takes a long time on a small machine; training runs
that are already in FOLDER are not repeated. Writes magnitudes.csv and .svg, training.csv and
gradients.csv into FOLDER (default: out/accuracy).
"""

import csv
import sys

from experiments import report
from experiments.accuracy import magnitudes, training


def write(path, rows):
    with open(path, "w", newline="") as out:
        writer = csv.DictWriter(out, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    print(f"wrote {path}")


def picture(folder, short):
    """True if the errors are within their bounds."""
    rows = magnitudes.measure(folder, blocks=20 if short else 1000)
    print("largest relative error of a sum, by size relative to the largest value of the block")
    print(magnitudes.table(rows))
    report.publish(folder / "magnitudes", rows, magnitudes.plot(rows))
    broken = magnitudes.outside(rows)
    for row in broken:
        print(f"outside of the bounds: {row}")
    return not broken


def trainings(folder, short):
    """True if no kind of sum differs significantly from Gloo's in float32."""
    if short:
        rows = training.measure(folder, ["cnn"], [2], ["float32", "bfloat16"], seeds=1, steps=6)
    else:
        rows = training.measure(folder, ["cnn", "gpt"], [4, 8], training.DTYPES, seeds=3)
    trained, looks = training.of(rows, "training"), training.of(rows, "gradients")
    summary, gradients = training.summarize(trained), training.summarize_gradients(looks)
    print("\nmean over the seeds, ± half their spread; losses over the last steps and the test set")
    print(training.table(summary))
    apart = training.told_apart(summary)
    print(
        "further from Gloo in float32 than Gloo's seeds from each other:",
        *apart or ["none"],
        sep="\n  ",
    )
    print("\nsums of real gradients: relative L2 error, and elements that become zero")
    print(training.table_of_gradients(gradients))
    write(folder / "training.csv", trained)
    write(folder / "gradients.csv", gradients)
    return short or not apart  # one seed has no spread


def main():
    parser = report.parser(__doc__, "out/accuracy")
    parser.add_argument("--short", action="store_true", help="a tiny form, for automated tests")
    parser.add_argument("--only", choices=["picture", "training"], help="run only one half")
    arguments = parser.parse_args()
    good = True
    if arguments.only != "training":
        good = picture(arguments.folder, arguments.short)
    if arguments.only != "picture":
        good &= trainings(arguments.folder, arguments.short)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
