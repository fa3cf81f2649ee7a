"""The error of a sum, by the size of its values relative to the largest in their block."""

import json
import math

from experiments.accuracy.job import run_job
from experiments.accuracy.ways import WAYS
from experiments.report import plt

WORLD_SIZES = (4, 8)
FLOOR = 1e-9  # exact sums are drawn here
STYLES = {
    "int32": ("-", "C0"),
    "int16": ("-", "C1"),
    "gloo_float32": ("--", "0.35"),
    "gloo_bfloat16": ("--", "0.65"),
}


def bound(world_size, power):
    """int32's error bound, relative to a value 2^power times the block's largest: W/2 units and
    half an ulp.

    A sum of W values from 2^power to twice that is at least W 2^power.
    """
    unit = 2.0 ** (0 + 1 + math.ceil(math.log2(world_size)) - 30)
    return min(1, world_size / 2 * unit / (world_size * 2.0**power) + 2.0**-24)


def float32_bound(world_size):
    return (world_size - 1) * 2.0**-24


def measure(folder, blocks):
    rows = []
    for world_size in WORLD_SIZES:
        result = folder / f"magnitudes{world_size}.json"
        run_job("magnitudes_rank", world_size, result, blocks)
        for way, power, median, most in json.loads(result.read_text()):
            rows.append(
                {
                    "world_size": world_size,
                    "way": way,
                    "log2_of_magnitude": power,
                    "median_error": median,
                    "largest_error": most,
                    "bound_of_int32": bound(world_size, power),
                    "bound_of_float32": float32_bound(world_size),
                }
            )
    return rows


def outside(rows):
    """Rows of int32 that exceed the bound."""
    return [
        row
        for row in rows
        if row["way"] == "int32" and row["largest_error"] > row["bound_of_int32"]
    ]


def table(rows, powers=(0, -5, -10, -15, -20, -25, -30)):
    """A table of the largest relative errors."""
    lines = [f"{'ranks':5} {'way':16}" + "".join(f"{f'2^{power}':>9}" for power in powers)]
    for world_size in WORLD_SIZES:
        for way, name in WAYS.items():
            found = {
                row["log2_of_magnitude"]: row["largest_error"]
                for row in rows
                if row["world_size"] == world_size and row["way"] == way
            }
            errors = "".join(f"{found[power]:9.1e}" for power in powers)
            lines.append(f"{world_size:5} {name:16}{errors}")
    return "\n".join(lines)


def plot(rows):
    figure, axes = plt.subplots(
        1, len(WORLD_SIZES), figsize=(10, 4.2), sharey=True, layout="constrained"
    )
    for axis, world_size in zip(axes, WORLD_SIZES, strict=True):
        for way, name in WAYS.items():
            own = [row for row in rows if (row["world_size"], row["way"]) == (world_size, way)]
            x = [row["log2_of_magnitude"] for row in own]
            line, color = STYLES[way]
            largest = [max(row["largest_error"], FLOOR) for row in own]
            axis.semilogy(x, largest, line, color=color, label=name)
        axis.semilogy(
            x, [row["bound_of_int32"] for row in own], ":", color="C0", label="promised for int32"
        )
        axis.axhline(float32_bound(world_size), ls=":", color="k", label="bound of float32")
        axis.set(
            title=f"{world_size} ranks",
            xlabel="log2 of a value, relative to the largest of its block",
            ylim=(FLOOR, 2),
        )
        axis.invert_xaxis()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("largest relative error of a sum")
    axes[0].legend(fontsize=8)
    return figure
