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
            Path(folder), ["cnn"], [4], ["float32"], seeds=size.of(2, 3), steps=size.of(25, None)
        )
    rows = training.of(measured, "training")
    ways = {"gloo_float32": "Gloo", "int32": "ATP, 32 bits", "int16": "ATP, 16 bits"}
    found = {way: [r["test_loss"] for r in rows if r["way"] == way] for way in ways}
    mean = {way: mean_of(values) for way, values in found.items()}
    spread = max(found["gloo_float32"]) - min(found["gloo_float32"])
    return Outcome(
        "loss on the test set after equal steps: "
        + "; ".join(f"{text}: {mean[way]:.4f}" for way, text in ways.items())
        + f"; Gloo's own seeds differ by {spread:.4f}",
        rows,
        f"{len(found['int32'])} seeds, Gloo's {min(found['gloo_float32']):.4f} to "
        f"{max(found['gloo_float32']):.4f}",
        [
            Check(
                "loss over atp (32 bits) relative to Gloo's",
                mean["int32"] / mean["gloo_float32"],
                0.99,
                1.01,
            ),
            Check(
                "loss over atp (16 bits) relative to Gloo's",
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
        "8 workers, ImageNet: as many epochs over ATP as over BytePS; VGG16 1.25 times as fast to "
        "75 % top-5, ResNet50 1.02 times to 93 %, ResNet152 likewise",
        State.REAL,
        "a small model and other data: only that accuracy needs no more steps is shown here. "
        "Fig. 8 and Fig. 18 show how much faster a step is",
        "a CNN on Fashion-MNIST, 4 ranks on one machine's loopback, equal steps and seeds over "
        "atp and over Gloo",
        "equal steps: yes; time: see Fig. 8 and Fig. 18",
        figure_11,
    )
]
