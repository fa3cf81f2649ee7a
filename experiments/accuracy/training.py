"""Does the kind of sum change the result of training? And how many gradients become zero?"""

import itertools
import json
import statistics

from experiments.accuracy.job import run_job
from experiments.accuracy.tasks import tasks
from experiments.accuracy.ways import WAYS

DTYPES = ("float32", "bfloat16")
RESULTS = ("train_loss", "test_loss", "accuracy")
REFERENCE = "gloo_float32"


def measure(folder, names, world_sizes, dtypes, seeds, steps=None):
    """All rows that the ranks write; `steps`: instead of the task's number.

    A complete training run of that many steps, from an earlier call, is not repeated.
    """
    known, rows = tasks(), []
    for name in names:
        if package := known[name].missing:
            raise SystemExit(f"no data for the {known[name].what}: apt-get install {package}")
    for world_size, dtype, name in itertools.product(world_sizes, dtypes, names):
        result = folder / f"training-{name}-{dtype}-{world_size}.jsonl"
        wanted = steps or known[name].steps
        if not _is_whole(result, wanted, seeds):
            result.unlink(missing_ok=True)
            run_job("training_rank", world_size, result, name, dtype, wanted, seeds)
        rows += rows_of(result)
    return rows


def rows_of(result):
    return [json.loads(line) for line in result.read_text().splitlines()]


def _is_whole(result, steps, seeds):
    trained = of(rows_of(result), "training") if result.exists() else []
    found = {(row["seed"], row["way"]) for row in trained if row["steps"] == steps}
    return found == set(itertools.product(range(seeds), WAYS))


def of(rows, kind):
    return [{k: v for k, v in row.items() if k != "kind"} for row in rows if row["kind"] == kind]


def _settings(rows):
    """The settings of the training runs, each once, without the kind of sum."""
    return list(dict.fromkeys((row["task"], row["dtype"], row["world_size"]) for row in rows))


def _matching(rows, setting, way):
    wanted = (*setting, way)
    return [r for r in rows if (r["task"], r["dtype"], r["world_size"], r["way"]) == wanted]


def summarize(trained):
    """A row per setting and kind of sum: the mean over the seeds, and their spread.

    `apart` compares with Gloo in float32 seed by seed, because those start with the same weights.
    """
    rows = []
    for setting, way in itertools.product(_settings(trained), WAYS):
        own, reference = (_matching(trained, setting, one) for one in (way, REFERENCE))
        row = dict(zip(("task", "dtype", "world_size", "way"), (*setting, way), strict=True))
        for result in RESULTS:
            values = [one[result] for one in own]
            theirs = [one[result] for one in reference]
            row[result] = statistics.mean(values)
            row[f"{result}_spread"] = max(values) - min(values)
            row[f"{result}_apart"] = statistics.mean(values) - statistics.mean(theirs)
        rows.append(row)
    return rows


def told_apart(summary):
    """Means further from that of Gloo in float32 than Gloo's seeds are from each other."""
    spreads = {
        (r["task"], r["dtype"], r["world_size"], name): r[f"{name}_spread"]
        for r in summary
        if r["way"] == REFERENCE
        for name in RESULTS
    }
    return [
        f"{r['task']}, {r['dtype']}, {r['world_size']} ranks: {name} of {WAYS[r['way']]} is "
        f"{r[f'{name}_apart']:+.4f} from that of {WAYS[REFERENCE]}, whose seeds spread by "
        f"{spreads[r['task'], r['dtype'], r['world_size'], name]:.4f}"
        for r in summary
        for name in RESULTS
        if abs(r[f"{name}_apart"]) > spreads[r["task"], r["dtype"], r["world_size"], name]
    ]


def table(summary):
    lines = [
        f"{'task':4} {'model':9} {'ranks':>5} {'summed by':15} {'training loss':>17} "
        f"{'test loss':>17} {'accuracy':>17}"
    ]
    for row in summary:
        figures = [
            f"{row['train_loss']:9.4f} ±{row['train_loss_spread'] / 2:.4f}",
            f"{row['test_loss']:9.4f} ±{row['test_loss_spread'] / 2:.4f}",
            f"{row['accuracy']:9.2%} ±{100 * row['accuracy_spread'] / 2:.2f} ",
        ]
        lines.append(
            f"{row['task']:4} {row['dtype']:9} {row['world_size']:5} {WAYS[row['way']]:15} "
            + " ".join(f"{figure:>17}" for figure in figures)
        )
    return "\n".join(lines)


def summarize_gradients(looks):
    """A row per setting and kind of sum, over all inspected steps."""
    rows = []
    for setting, way in itertools.product(_settings(looks), WAYS):
        own = _matching(looks, setting, way)
        nonzero = sum(one["nonzero"] for one in own)
        vanished = sum(one["vanished"] for one in own)
        rows.append(
            {
                **dict(zip(("task", "dtype", "world_size", "way"), (*setting, way), strict=True)),
                "looks": len(own),
                "relative_error": statistics.median(one["error"] for one in own),
                "nonzero": nonzero,
                "vanished": vanished,
                "share_vanished": vanished / nonzero,
            }
        )
    return rows


def table_of_gradients(rows):
    lines = [
        f"{'task':4} {'model':9} {'ranks':>5} {'summed by':15} {'error':>9} {'become zero':>12} of"
    ]
    for row in rows:
        lines.append(
            f"{row['task']:4} {row['dtype']:9} {row['world_size']:5} {WAYS[row['way']]:15} "
            f"{row['relative_error']:9.1e} {row['share_vanished']:12.4%} {row['nonzero']:,}"
        )
    return "\n".join(lines)
