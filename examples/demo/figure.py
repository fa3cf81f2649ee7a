"""The demo's picture: the losses of both runs, and where their sums were computed."""

import pathlib

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402
import node_stats  # noqa: E402
import numpy as np  # noqa: E402
from job import WORKERS, Run  # noqa: E402

_ATP, _GLOO, _INK, _GRID = "#0b6e99", "#e07b39", "#333333", "#dddddd"
_SMOOTHED_STEPS = 15


def draw(atp: Run, gloo: Run, path: pathlib.Path) -> None:
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _GRID, "text.color": _INK})
    figure, (losses, shares) = plt.subplots(
        2, 1, figsize=(8, 6.2), sharex=True, height_ratios=[2, 1], layout="constrained"
    )
    figure.suptitle(
        f"The same training over two networks: Fashion-MNIST, {WORKERS} workers", fontsize=12
    )
    _draw_losses(losses, gloo, _GLOO, "Gloo (ring between the workers)", "--")
    _draw_losses(losses, atp, _ATP, "atp (summed in the switch)", "-")
    losses.set_ylabel("training loss")
    losses.set_ylim(bottom=0)
    # Above the plot, because the curves may be anywhere.
    losses.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), borderpad=0)
    _draw_shares(shares, atp)
    shares.set_xlabel("seconds of training")
    for axes in (losses, shares):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=_GRID, linewidth=0.6)
        axes.tick_params(colors=_INK, length=0)
        axes.set_xlim(left=0)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_losses(axes, run: Run, color: str, label: str, style: str) -> None:
    seconds = np.array(run.result["times"]) - run.result["begin"]
    loss = np.array(run.result["losses"])
    axes.plot(seconds, loss, color=color, alpha=0.25, linewidth=0.8)
    # A moving average over the previous steps, shorter at the start.
    sums = np.cumsum(np.insert(loss, 0, 0.0))
    first = np.maximum(np.arange(len(loss)) + 1 - _SMOOTHED_STEPS, 0)
    smooth = (sums[1:] - sums[first]) / (np.arange(len(loss)) + 1 - first)
    accuracy = f"{run.result['accuracy']:.1%} of the test images correct"
    axes.plot(seconds, smooth, style, color=color, linewidth=1.8, label=f"{label}: {accuracy}")


def _draw_shares(axes, atp: Run) -> None:
    begin = atp.result["begin"]
    seconds, shares = [], []
    for before, record in zip(atp.server, atp.server[1:], strict=False):
        share = node_stats.share_summed_in_switch(record, before)
        if share is not None:
            seconds.append(record["time_s"] - begin)
            shares.append(100 * share)
    axes.fill_between(seconds, shares, color=_ATP, alpha=0.15, linewidth=0)
    axes.plot(seconds, shares, color=_ATP, linewidth=1.8)
    whole = node_stats.share_summed_in_switch(atp.server[-1]) or 0.0
    axes.annotate(
        f"{whole:.2%} of all fragments", (0.99, 0.12), xycoords="axes fraction", ha="right",
        color=_ATP,
    )  # fmt: skip
    axes.set_ylim(0, 105)
    axes.set_yticks([0, 25, 50, 75, 100], ["0 %", "25 %", "50 %", "75 %", "100 %"])
    axes.set_ylabel("fragments summed\nin the switch")
