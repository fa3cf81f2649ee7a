"""The results, as tables in the style of nccl-tests and as JSON that describes the system."""

import json
import os
import platform
import subprocess

import torch

from experiments.bench.ways import BASELINE
from experiments.report import REPOSITORY

MIB = 1 << 20


def add_ratios(rows):
    """Gloo's time relative to each implementation's, for the same tensors in the same rounds."""
    of_gloo = {_place(row): row["median_s"] for row in rows if row["way"] == BASELINE}
    for row in rows:
        gloo = of_gloo.get(_place(row))
        row["gloo_over"] = gloo / row["median_s"] if gloo else None
        row["bound_over"] = row["bound_s"] / row["median_s"] if row["bound_s"] else None


def _place(row):
    return row["workload"], row["bytes"]


def head(workload):
    """The heading of a table: the network and the workload."""
    if workload.layout == "host":
        where = "processes on one host, as fast as the machine"
    else:
        racks = "in two racks, each with a switch, " if workload.layout == "racks" else ""
        wide = f"links of {workload.mbit} Mbit/s"
        services = "switches and servers" if workload.has_switch else "servers, no switch:"
        where = f"{racks}{wide}, {services} {workload.wide:g} times that"
    more = []
    if workload.servers > 1:
        more.append(f"{workload.servers} servers")
    if workload.jobs > 1:
        more.append(f"{workload.jobs} concurrent jobs on the same hosts")
    if workload.loss_per_cent:
        more.append(f"{workload.loss_per_cent:g} % packet loss at every host")
    if workload.mtu != 1500:
        more.append(f"MTU {workload.mtu}")
    words = ", ".join([f"{workload.ranks} ranks, {where}", *more])
    return f"{workload.name}: {words}; medians of {workload.rounds} alternating rounds"


COLUMNS = (
    f"{'size':>11} {'way':14} {'time':>10} {'min':>10} {'max':>10} {'99 %':>10} {'bound':>10}"
    f" {'bound/time':>10} {'algbw':>9} {'bytes/rank':>11} {'Gloo/':>7}\n"
    f"{'(B)':>11} {'':14} {'(ms)':>10} {'(ms)':>10} {'(ms)':>10} {'(ms)':>10} {'(ms)':>10}"
    f" {'':>10} {'(Gbit/s)':>9} {'(MiB)':>11} {'':>7}"
)


def line(row):
    def milliseconds(key):
        return f"{row[key] * 1e3:10.3f}" if row[key] else f"{'-':>10}"

    algbw = row["bytes"] * 8 / row["median_s"] / 1e9
    carried = row["bytes_of_a_rank"]
    of_bound = f"{row['bound_over']:10.3f}" if row["bound_over"] else f"{'-':>10}"
    return (
        f"{row['bytes']:11} {row['way']:14} "
        + " ".join(map(milliseconds, ("median_s", "least_s", "most_s", "p99_s", "bound_s")))
        + f" {of_bound} {algbw:9.3f}"
        + (f" {carried / MIB:11.3f}" if carried else f" {'-':>11}")
        + (f" {row['gloo_over']:7.2f}" if row["gloo_over"] else f" {'-':>7}")
    )


def circumstances(arguments):
    return {
        "commit": _git("rev-parse", "HEAD"),
        "changed": bool(_git("status", "--porcelain", "--untracked-files=no")),
        "kernel": platform.release(),
        "processors": os.cpu_count(),
        "torch": torch.__version__,
        "options": {key: str(value) for key, value in vars(arguments).items()},
    }


def _git(*words):
    done = subprocess.run(["git", *words], cwd=REPOSITORY, capture_output=True, text=True)
    return done.stdout.strip()


def write(folder, rows, arguments):
    path = folder / "bench.json"
    path.write_text(json.dumps({**circumstances(arguments), "rows": rows}, indent=1) + "\n")
    return path
