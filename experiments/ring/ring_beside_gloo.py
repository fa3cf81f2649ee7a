#!/usr/bin/env python3
"""Our ring and Gloo side by side: the same collectives on the same links, in turns.

    .venv/bin/python experiments/ring/ring_beside_gloo.py [FOLDER]

Each rank is a process in a network namespace of its own, whose link carries --mbit in each
direction. Rounds alternate between the two (A, B, A, B, ...), and the median counts; the time of a
round is that of the slowest rank. Every result is compared with the true sum. Writes
ring-beside-gloo.csv and ring-beside-gloo.svg into FOLDER (default: out/ring). Needs root; with
--local the ranks share this machine's loopback, and with it the processor is the limit.
"""

import argparse
import contextlib
import csv
import datetime
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(REPOSITORY), str(REPOSITORY / "python")]

HEADERS = 1514 / 1448  # of Ethernet, IP and TCP
PATHS = ("ring", "gloo")
# What a rank sends at least, in units of the whole tensor.
SHARES = {
    "all_reduce": lambda ranks: 2 * (ranks - 1) / ranks,
    "reduce_scatter": lambda ranks: (ranks - 1) / ranks,
    "all_gather": lambda ranks: (ranks - 1) / ranks,
}


def collective(name, size, rank, ranks):
    """(call(group), tensor to fill before each, with what, result, what it must be)."""
    import torch
    import torch.distributed as dist

    whole, block = torch.empty(size // 4), torch.empty(size // 4 // ranks)
    total = ranks * (ranks + 1) / 2
    if name == "all_reduce":
        return lambda group: dist.all_reduce(whole, group=group), whole, rank + 1.0, whole, total
    if name == "reduce_scatter":

        def scatter(group):
            dist.reduce_scatter_tensor(block, whole, group=group)

        return scatter, whole, rank + 1.0, block, total

    def gather(group):
        dist.all_gather_into_tensor(whole, block, group=group)

    expected = torch.arange(1.0, ranks + 1).repeat_interleave(len(block))
    return gather, block, rank + 1.0, whole, expected


def measure(arguments, rank, ranks):
    """Rows of (collective, bytes, path, seconds of each round), at one rank."""
    import torch
    import torch.distributed as dist

    import atp.torch

    torch.set_num_threads(1)
    options = atp.torch.Options(algorithm="ring")
    dist.init_process_group(
        "atp",
        rank=rank,
        world_size=ranks,
        init_method=arguments.meet,
        pg_options=options,
        timeout=datetime.timedelta(seconds=120),
    )
    groups = {"ring": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    rows = []
    for name in SHARES:
        for size in arguments.sizes:
            call, inputs, fill, result, expected = collective(name, size, rank, ranks)
            seconds = {path: [] for path in PATHS}
            for turn in range(arguments.rounds + 1):  # the first warms up
                for path in PATHS:
                    inputs.fill_(fill)
                    dist.barrier()
                    begin = time.perf_counter()
                    call(groups[path])
                    took = torch.tensor([time.perf_counter() - begin])
                    assert bool((result == expected).all()), f"{path} {name}: a wrong sum"
                    dist.all_reduce(took, op=dist.ReduceOp.MAX)
                    if turn > 0:
                        seconds[path].append(took.item())
            rows += [(name, size, path, seconds[path]) for path in PATHS]
    sent = atp.torch.stats()["bytes_sent"]
    dist.destroy_process_group()
    return rows, sent


def expected_bytes(arguments, ranks):
    """What one rank must have sent over its ring; the maximum of the times goes over Gloo."""
    return sum(
        round(share(ranks) * size) * (arguments.rounds + 1)
        for share in SHARES.values()
        for size in arguments.sizes
    )


def be_a_rank(arguments):
    # What else this machine does shall not count, where that is allowed.
    with contextlib.suppress(PermissionError):
        os.nice(-15)
    rows, sent = measure(arguments, arguments.rank, arguments.ranks)
    assert sent == expected_bytes(arguments, arguments.ranks), (
        f"rank {arguments.rank} sent {sent} bytes, the model says "
        f"{expected_bytes(arguments, arguments.ranks)}"
    )
    if arguments.rank == 0:
        print(json.dumps(rows))


def rank_command(arguments, rank, meet):
    sizes = ",".join(map(str, arguments.sizes))
    return [
        sys.executable, __file__, "--rank", rank, "--ranks", arguments.ranks, "--meet", meet,
        "--sizes", sizes, "--rounds", arguments.rounds,
    ]  # fmt: skip


def run_locally(arguments, folder):
    meet = f"file://{folder}/store"
    ranks = [
        subprocess.Popen(list(map(str, rank_command(arguments, r, meet))), stdout=subprocess.PIPE)
        for r in range(arguments.ranks)
    ]
    texts = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode for rank in ranks):
        raise SystemExit("a rank failed; its error stands above")
    return json.loads(texts[0])


def run_in_namespaces(arguments, folder):
    from lab.network import Network

    names = [f"h{r}" for r in range(arguments.ranks)]
    with Network(Path(folder), {"rack": names}) as network:
        for name in names:
            network.shape_host(name, arguments.mbit)
        meet = f"tcp://{network['h0'].address}:29600"
        environment = {"GLOO_SOCKET_IFNAME": "eth0", "OMP_NUM_THREADS": 1}
        processes = [
            network[name].start(*rank_command(arguments, r, meet), env=environment)
            for r, name in enumerate(names)
        ]
        for rank, process in enumerate(processes):
            code, text = network.wait(process, 900)
            if code != 0:
                raise SystemExit(f"rank {rank} failed:\n{text}")
        text = processes[0].log.read_text()
        return json.loads(next(line for line in text.splitlines() if line.startswith("[[")))


def summarize(rows, arguments):
    """One row for each collective and size: medians, and the least time that the links allow."""
    table = []
    medians = {(name, size, path): statistics.median(s) for name, size, path, s in rows}
    for name, share in SHARES.items():
        for size in arguments.sizes:
            ring, gloo = (medians[name, size, path] for path in PATHS)
            bound = share(arguments.ranks) * size * HEADERS / (arguments.mbit * 1e6 / 8)
            table.append(
                {
                    "collective": name,
                    "bytes": size,
                    "ring_ms": ring * 1e3,
                    "gloo_ms": gloo * 1e3,
                    "gloo_over_ring": gloo / ring,
                    "bound_ms": 0 if arguments.local else bound * 1e3,
                }
            )
    return table


def print_table(table, arguments):
    where = "loopback" if arguments.local else f"links of {arguments.mbit} Mbit/s"
    print(
        f"{arguments.ranks} ranks, {where}, float32, medians of {arguments.rounds} rounds in turns"
    )
    print(f"bound: (N-1)/N * S/B, an all-reduce twice that, with headers (x {HEADERS:.3f})")
    print(f"{'collective':15} {'bytes':>10} {'ring ms':>9} {'Gloo ms':>9} {'Gloo/ring':>9}", end="")
    print(f" {'bound ms':>9} {'ring/bound':>10}")
    for row in table:
        ratio = f"{row['ring_ms'] / row['bound_ms']:10.3f}" if row["bound_ms"] else f"{'-':>10}"
        print(
            f"{row['collective']:15} {row['bytes']:10,} {row['ring_ms']:9.2f} "
            f"{row['gloo_ms']:9.2f} {row['gloo_over_ring']:9.2f} {row['bound_ms']:9.2f} {ratio}"
        )


def write_csv(table, file):
    with open(file, "w", newline="") as out:
        writer = csv.DictWriter(out, table[0])
        writer.writeheader()
        writer.writerows(table)


def draw(table, arguments, file):
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "ring"
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for axis, name in zip(axes, SHARES, strict=True):
        rows = [row for row in table if row["collective"] == name]
        sizes = [row["bytes"] / 2**20 for row in rows]
        axis.loglog(sizes, [row["gloo_ms"] for row in rows], "s--", color="0.45", label="Gloo")
        axis.loglog(sizes, [row["ring_ms"] for row in rows], "o-", color="C0", label="ring")
        if not arguments.local:
            axis.loglog(sizes, [row["bound_ms"] for row in rows], ":", color="k", label="bound")
        axis.set(title=name, xlabel="tensor, MiB")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("time, ms")
    axes[0].legend()
    figure.savefig(file, metadata={"Date": None})


def parse(words):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", nargs="?", default="out/ring")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--mbit", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--local", action="store_true")
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(size) for size in text.split(",")],
        default=[2**14, 2**16, 2**18, 2**20, 2**22, 2**24],
    )
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--meet", help=argparse.SUPPRESS)
    return parser.parse_args(words)


def main(words):
    arguments = parse(words)
    if arguments.rank is not None:
        return be_a_rank(arguments)
    with tempfile.TemporaryDirectory() as folder:
        rows = (run_locally if arguments.local else run_in_namespaces)(arguments, folder)
    table = summarize([tuple(row) for row in rows], arguments)
    print_table(table, arguments)
    out = Path(arguments.folder)
    out.mkdir(parents=True, exist_ok=True)
    write_csv(table, out / "ring-beside-gloo.csv")
    draw(table, arguments, out / "ring-beside-gloo.svg")


if __name__ == "__main__":
    main(sys.argv[1:])
