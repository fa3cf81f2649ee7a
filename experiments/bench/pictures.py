"""Pictures of the results: one per family of workloads that was measured."""

from experiments.report import plt, save

COLORS = {
    "atp memory": "C3",
    "atp": "C0",
    "atp int16": "C9",
    "atp ring": "C2",
    "atp auto": "C4",
    "Gloo": "0.45",
    "Gloo float16": "0.7",
    "Open MPI ring": "C1",
}
MIB = 1 << 20


def draw(folder, rows):
    """Draws the pictures; returns their paths."""
    families = {}
    for row in rows:
        families.setdefault(row["family"], []).append(row)
    paths = []
    for family, own in families.items():
        figure = _by_size(own) if len({row["bytes"] for row in own}) > 2 else _bars(own)
        figure.suptitle(f"float32 all-reduce, {family}", fontsize=10)
        path = folder / (family.replace("/", " per ").replace(" ", "-").lower() + ".svg")
        save(figure, path)
        paths.append(path)
    return paths


def _bars(rows):
    """A group of bars per workload: median, minimum to maximum, and the bound."""
    places = list(dict.fromkeys((row["workload"], row["bytes"]) for row in rows))
    ways = list(dict.fromkeys(row["way"] for row in rows))
    figure, axis = plt.subplots(
        figsize=(max(4.5, 1.8 + 1.6 * len(places)), 3.8), layout="constrained"
    )
    width = 0.8 / len(ways)
    for number, way in enumerate(ways):
        own = [row for row in rows if row["way"] == way]
        at = [
            places.index((row["workload"], row["bytes"])) + (number - (len(ways) - 1) / 2) * width
            for row in own
        ]
        medians = [row["median_s"] * 1e3 for row in own]
        below = [(row["median_s"] - row["least_s"]) * 1e3 for row in own]
        above = [(row["most_s"] - row["median_s"]) * 1e3 for row in own]
        axis.bar(at, medians, width * 0.9, label=way, color=COLORS[way])
        axis.errorbar(at, medians, [below, above], fmt="none", ecolor="k", elinewidth=0.8)
        bounds = [row["bound_s"] * 1e3 for row in own]
        if any(bounds):
            axis.hlines(
                bounds,
                [x - width * 0.45 for x in at],
                [x + width * 0.45 for x in at],
                color="k",
                linewidth=2,
                label="lower bound of the links" if number == 0 else None,
            )
    ranks = {row["workload"]: row["ranks"] for row in rows}
    by_ranks = len(set(ranks.values())) == len(ranks) > 1
    labels = [
        f"{ranks[name]} ranks\n{_size(size)}" if by_ranks else f"{name}\n{_size(size)}"
        for name, size in places
    ]
    axis.set_xticks(range(len(places)), labels, fontsize=8)
    axis.set_ylabel("time, ms")
    axis.grid(axis="y", alpha=0.3)
    axis.set_axisbelow(True)
    figure.legend(loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _by_size(rows):
    """Time by size, with one plot per workload."""
    names = list(dict.fromkeys(row["workload"] for row in rows))
    figure, axes = plt.subplots(
        1, len(names), figsize=(1 + 3 * len(names), 3.4), sharey=True, layout="constrained"
    )
    for axis, name in zip([axes] if len(names) == 1 else axes, names, strict=True):
        own = [row for row in rows if row["workload"] == name]
        for way in dict.fromkeys(row["way"] for row in own):
            points = [row for row in own if row["way"] == way]
            axis.loglog(
                [row["bytes"] / 1024 for row in points],
                [row["median_s"] * 1e3 for row in points],
                "o-",
                label=way,
                color=COLORS[way],
            )
        axis.set(xlabel="tensor, KiB")
        axis.set_title(f"{own[0]['ranks']} ranks", fontsize=9)
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8)
        axis.set_ylabel("time, ms" if name == names[0] else "")
    return figure


def _size(size):
    return f"{size // MIB} MiB" if size >= MIB else f"{size // 1024} KiB"
