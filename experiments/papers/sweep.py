"""A simulated contest over cases and seeds, and its plots."""

from experiments.report import jain, plt
from experiments.sharing.contest import play_all

HOSTS = "The standard hosts"  # docs/results/papers.md says at its beginning what they are
LINE_GBIT = 62 * 32 / (29 + 18)  # of sums, as fast as a host receives


def over_seeds(size, cases, options_of):
    """A row per case and seed: the case, the seed, and the contest's numbers."""
    runs = [(case, seed) for case in cases for seed in size.seeds]
    results = play_all([{**options_of(**case), "seed": seed} for case, seed in runs])
    return [
        {
            **case,
            "seed": seed,
            "goodput_gbit": sum(result["goodput"]),
            "share_in_switch": result["share_in_switch"],
            "packets_to_server": result["packets_to_server"],
            "repeats": result["repeats"],
            "jain": jain(result["goodput"]),
            "least_job_gbit": min(result["goodput"]),
        }
        for (case, seed), result in zip(runs, results, strict=True)
    ]


COLUMNS = ("goodput_gbit", "share_in_switch", "packets_to_server", "repeats", "jain")


def bars(names, ours, paper=None, label="Gbit/s of sums"):
    """Bars of ours with their spread, and of the paper's numbers where it prints some."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    width = 0.38 if paper else 0.6
    places = range(len(names))
    values = [one[0] for one in ours]
    errors = [[v - low for v, low, _ in ours], [high - v for v, _, high in ours]]
    shift = width / 2 if paper else 0
    axes.bar([p + shift for p in places], values, width, yerr=errors, capsize=3, label="ours")
    if paper:
        at = [(p, v) for p, v in zip(places, paper, strict=True) if v is not None]
        axes.bar([p - shift for p, _ in at], [v for _, v in at], width, label="paper")
        axes.legend(fontsize=8)
    axes.set_xticks(list(places), names)
    axes.set_ylabel(label)
    axes.grid(alpha=0.3, axis="y")
    return figure


def triple(row, name="goodput_gbit"):
    return row[name], row[f"{name}_least"], row[f"{name}_most"]


def lines(rows, x, series, label, invert=False, paper=None):
    """A line per series (name: label) with the band between its extremes."""
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    for name, text in series.items():
        mine = [row for row in rows if row["scheme"] == name]
        at = [row[x] for row in mine]
        (line,) = axes.plot(at, [row["goodput_gbit"] for row in mine], "o-", label=text)
        least, most = ([row[f"goodput_gbit_{end}"] for row in mine] for end in ("least", "most"))
        axes.fill_between(at, least, most, alpha=0.2, color=line.get_color())
    if paper:
        axes.plot(*paper[0], "kx", ms=8, label=paper[1])
    axes.set(xlabel=label, ylabel="Gbit/s of sums, all jobs", ylim=(0, None))
    if invert:
        axes.invert_xaxis()
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure
