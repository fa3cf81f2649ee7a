"""The in-network paper's Fig. 11: does training over integers need more epochs?

Real training, real processes.
"""

import tempfile
from pathlib import Path

from experiments.accuracy import training
from experiments.papers.entry import Check, Entry, Outcome, State, mean_of
from experiments.papers.sweep import bars


def figure_11(size):
    with tempfile.TemporaryDirectory() as folder:
        measured = training.measure(
            Path(folder), ["cnn"], [4], ["float32"], seeds=size.of(1, 3), steps=size.of(25, None)
        )
    rows = training.of(measured, "training")
    ways = {"gloo_float32": "Gloo", "int32": "ATP, 32 bits", "int16": "ATP, 16 bits"}
    found = {way: [r["test_loss"] for r in rows if r["way"] == way] for way in ways}
    mean = {way: mean_of(values) for way, values in found.items()}
    spread = max(found["gloo_float32"]) - min(found["gloo_float32"])
    return Outcome(
        "After equal steps the loss on the test set is "
        f"{mean['gloo_float32']:.4f} over Gloo, {mean['int32']:.4f} over ATP with 32 bits, and "
        f"{mean['int16']:.4f} with 16 bits. Gloo's own seeds differ by {spread:.4f}.",
        rows,
        f"{len(found['int32'])} seeds, Gloo's {min(found['gloo_float32']):.4f} to "
        f"{max(found['gloo_float32']):.4f}",
        [
            Check(
                "loss after training over ATP with 32 bits, divided by Gloo's",
                mean["int32"] / mean["gloo_float32"],
                0.99,
                1.01,
            ),
            Check(
                "loss after training over ATP with 16 bits, divided by Gloo's",
                mean["int16"] / mean["gloo_float32"],
                0.97,
                1.03,
            ),
        ],
        bars(
            list(ways.values()),
            [(mean[w], min(found[w]), max(found[w])) for w in ways],
            label="loss on the test set, equal steps",
        ),
    )


ENTRIES = [
    Entry(
        "11",
        "Fig. 11, §5.3.1: time to accuracy",
        "Eight workers train on ImageNet. ATP needs as many epochs as BytePS. VGG16 reaches a "
        "top-5 accuracy of 75 % 1.25 times as fast, and ResNet50 one of 93 % 1.02 times as fast; "
        "ResNet152 gains about as much as ResNet50.",
        State.REAL,
        "The model is small, and the data differ. So this run shows only that accuracy needs no "
        "more steps.",
        "A CNN trains on Fashion-MNIST, with four ranks over one machine's loopback. Steps and "
        "seeds are the same.",
        "equal steps: yes; time: see Fig. 8 and Fig. 18",
        figure_11,
    )
]
