"""The plots of docs/plan/planner.md, and those of the meshes of the paper's figures.

    .venv/bin/python -m experiments.planner.paper_plots [FOLDER]

Runs `planner_paper --out FOLDER` (default: out/planner), and draws each table that it writes.
"""

import csv
import subprocess

from matplotlib.colors import to_rgb
from matplotlib.patches import Patch

from experiments import report
from experiments.report import BUILD, plt

# Distinguishable with any colour vision (Okabe and Ito).
BLUE, RED, GREEN, PINK = "#0072b2", "#d55e00", "#009e73", "#cc79a7"

DASHED = ("ATP-OPT", "rings, plain 1-D")


def curves(rows, title):
    figure, axes = plt.subplots(figsize=(7.6, 5), layout="constrained")
    devices = [int(row["devices"]) for row in rows]
    names = [name for name in rows[0] if name not in ("devices", "mesh")]
    for name, color in zip(names, (BLUE, RED, GREEN, PINK), strict=True):
        values = [float(row[name]) for row in rows]
        axes.plot(devices, values, "o--" if name in DASHED else "o-", color=color, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(devices, devices)
    axes.set_ylim(0)
    axes.set(xlabel="devices", ylabel="T", title=title)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    return figure


def bars(rows, title):
    figure, axes = plt.subplots(figsize=(7.6, 2.4), layout="constrained")
    meshes = [row["mesh"] for row in rows]
    first, second = ([float(row[f"dimension {d}"]) for row in rows] for d in (1, 2))
    axes.barh(meshes, first, 0.6, color=BLUE, label="dimension 1")
    ends = axes.barh(meshes, second, 0.6, first, color=RED, label="dimension 2")
    notes = axes.bar_label(ends, [row["T"] for row in rows], padding=4)
    for row, *texts in zip(rows, notes, axes.get_yticklabels(), strict=True):
        for text in texts:
            text.set_fontweight("bold" if row["best"] == "yes" else "normal")
    axes.invert_yaxis()
    axes.margins(x=0.1)
    axes.set_title(f"{title}\ncommunication of one layer, by dimension; the best mesh in bold")
    axes.set_xlabel("T, links in GB/s")
    axes.legend()
    return figure


def cell(row):
    """The meshes without and with aggregation, the gain, and the colour of what it changes."""
    without = f"({row['d1']},{row['d2']})"
    mesh = f"({row['innetwork_d1']},{row['innetwork_d2']})"
    gain = float(row["seconds"]) / float(row["innetwork_seconds"])
    color = BLUE if gain <= 1 else RED if mesh == without else GREEN
    return without if mesh == without else f"{without} → {mesh}", gain, color


def shaded(color, shade):
    """The colour mixed with white: shade 0 is pale, 1 is the full colour."""
    weight = 0.12 + 0.88 * shade
    return [1 + (channel - 1) * weight for channel in to_rgb(color)]


def grid(rows, title, level):
    counts = list(dict.fromkeys(row["count"] for row in rows))
    factors = list(dict.fromkeys(row["bandwidth_factor"] for row in rows))
    cells = {(row["count"], row["bandwidth_factor"]): cell(row) for row in rows}
    most = max(gain for _, gain, _ in cells.values())
    figure, axes = plt.subplots(figsize=(8.6, 3.9), layout="constrained")
    for (count, factor), (text, gain, color) in cells.items():
        shade = (gain - 1) / (most - 1)
        x, y = counts.index(count), factors.index(factor)
        face = shaded(color, shade)
        axes.add_patch(plt.Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=face, edgecolor="white"))
        ink = "white" if shade > 0.55 else "#222222"
        axes.text(x, y, text, ha="center", va="center", fontsize=8, color=ink)
    axes.set_xlim(-0.5, len(counts) - 0.5)
    axes.set_ylim(len(factors) - 0.5, -0.5)
    axes.set_xticks(range(len(counts)), counts)
    axes.set_yticks(range(len(factors)), [f"x{factor}" for factor in factors])
    axes.set_xlabel(f"count of {level}")
    axes.set_ylabel("ratio of the bandwidth of\ndevice to the described one")
    figure.suptitle(
        f"{title}\nbest mesh without → with in-network aggregation; darker gains more", fontsize=12
    )
    axes.legend(
        handles=[
            Patch(color=shaded(BLUE, 0), label="aggregation does not help"),
            Patch(color=shaded(RED, 0.8), label="it helps on the same mesh"),
            Patch(color=shaded(GREEN, 0.8), label="it helps on another mesh"),
        ],
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
        ncols=3,
        frameon=False,
    )
    return figure


# By the table's name: what draws it, the title, and for a grid the level whose count varies.
PLOTS = {
    "fig12": (
        curves,
        "Fig. 12: communication on a flat switch or a torus\n"
        "2Lbsh/GroupBW is 1; ATP-i is the mesh (N/i, i), ATP-1 is Megatron's",
    ),
    "ring-and-aggregation": (
        curves,
        "The best mesh with rings, and with in-network aggregation\nflat switch, links of 1 GB/s",
    ),
    "fig7a-meshes": (bars, "Fig. 7a: four nodes of four GPUs, rings"),
    "fig7b-meshes": (bars, "Fig. 7b: 4 x 4 torus, equations 2 to 4"),
    "fig11-ic2": (bars, "Fig. 11, IC2: NVLink pairs on PCIe, equations 2 to 4"),
    "fig11-ic3": (bars, "Fig. 11, IC3: eight on NVSwitch, equations 2 to 4"),
    "fig11-ic4": (bars, "Fig. 11, IC4: sixteen on InfiniBand, equations 2 to 4"),
    "map-of-meshes": (grid, "GPT on hosts of four devices, 1 GB/s a host", "host"),
    "map-of-servers": (grid, "GPT on a flat switch with one server host on 1 GB/s", "device"),
}


def draw(folder):
    subprocess.run(
        [BUILD / "bin" / "planner_paper", "--out", folder], check=True, stdout=subprocess.DEVNULL
    )
    for name, (plot, *words) in PLOTS.items():
        with open(folder / f"{name}.csv", newline="") as table:
            rows = list(csv.DictReader(table))
        report.save(plot(rows, *words), folder / f"{name}.svg")


def main():
    folder = report.parser(__doc__, "out/planner").parse_args().folder
    draw(folder)
    print(f"wrote {len(PLOTS)} tables and plots into {folder}")


if __name__ == "__main__":
    main()
