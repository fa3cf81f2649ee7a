"""The demo's picture: predicted and measured communication per mesh, and the losses."""

import pathlib
import statistics

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

_COLORS, _INK, _GRID = ("#0b6e99", "#e07b39", "#5a8f3c"), "#333333", "#dddddd"


def draw(result: dict, path: pathlib.Path) -> None:
    plt.rcParams.update({"font.size": 10, "axes.edgecolor": _GRID, "text.color": _INK})
    figure, (bars, losses) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    _draw_bars(bars, result["replayed"])
    _draw_losses(losses, result["trained"])
    for axes in (bars, losses):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color=_GRID, linewidth=0.6, axis="y")
        axes.set_axisbelow(True)
        axes.tick_params(colors=_INK, length=0)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _draw_bars(axes, replayed: list[dict]) -> None:
    for i, one in enumerate(replayed):
        rounds = [1e3 * seconds for seconds in one["measured"]]
        first = i == 0
        axes.bar(i - 0.2, 1e3 * one["predicted"], 0.36, color="#bbbbbb",
                 label="predicted" if first else None)  # fmt: skip
        axes.bar(i + 0.2, statistics.median(rounds), 0.36, color=_COLORS[0],
                 label="measured, median" if first else None)  # fmt: skip
        axes.plot([i + 0.2] * len(rounds), rounds, "_", color=_INK,
                  label="each round" if first else None)  # fmt: skip
    axes.set_xticks(range(len(replayed)), [str(tuple(one["mesh"])) for one in replayed])
    axes.set_xlabel("mesh")
    axes.set_ylabel("ms of communication per layer, forward and backward")
    axes.legend(frameon=False, loc="upper left")


def _draw_losses(axes, trained: list[dict]) -> None:
    styles = ("-", "--", "o")
    for i, one in enumerate(trained):
        label = f"{tuple(one['mesh'])}: {one['seconds'] * 1e3:.0f} ms per step"
        # Equal curves coincide, so different styles keep them visible.
        look = {"color": _COLORS[i % 3], "linewidth": 3.2 - i, "markersize": 3.5}
        axes.plot(one["losses"], styles[i % 3], label=label, **look)
    axes.set_xlabel("step")
    axes.set_ylabel("training loss, bytes of the King James Bible")
    axes.legend(frameon=False, loc="upper right")
