"""Runs one workload: starts its ranks once, then alternates its implementations, in rounds."""

import statistics
import sys
from pathlib import Path

from experiments.bench import openmpi
from experiments.bench.conductor import Conductor, RankFailed
from experiments.bench.place import kinds, network_of, ways_of
from experiments.bench.ways import WAYS, bound_s
from experiments.report import REPOSITORY
from lab.ranks import KEEP_MEMORY, environment

RANK = Path(__file__).with_name("torch_rank.py")
START_S, TURN_S = 120, 300
# Small all-reduces are timed in batches, because waking the ranks takes longer than one of them.
TIMED_BYTES, MOST_ITERATIONS = 1 << 20, 32
# The first turn connects. A group with "auto" has compared its algorithms after eight operations
# (atp/collective/tuner.h); all implementations get the same number of turns that do not count.
AUTO_WARM_UP = 9


def measure(workload, mpi_program):
    """A row per size and implementation; `mpi_program` may be None if Open MPI is not used."""
    with network_of(workload) as place:
        processes = []

        def check():
            for process in processes:
                if process.poll():
                    said = process.log.read_text(errors="replace")
                    raise RankFailed(f"bench: a rank of {workload.name} failed:\n{said}")

        conductor = Conductor(place.network.folder / "conductor", check)
        for job in range(workload.jobs):
            for kind in kinds(workload):
                processes += _start(kind, job, place, conductor, mpi_program)
        for kind in kinds(workload):
            conductor.wait_for(kind, workload.jobs * workload.ranks, START_S)
        rows = [row for size in workload.sizes for row in _turns(place, conductor, size)]
        conductor.end()
        return rows


def _start(kind, job, place, conductor, mpi_program):
    """The rank processes of one job."""
    folder = place.network.folder
    if kind == "openmpi":
        return [openmpi.start(mpi_program, place.hosts, conductor.path, job, folder)]
    ways = ",".join(ways_of(place.workload, kind))
    words = (sys.executable, RANK, conductor.path, job, ways)
    own = {"MASTER_PORT": 29500 + job, **KEEP_MEMORY}
    return [
        host.start(
            *map(str, words),
            env=_with_repository(
                {**environment(rank, place.hosts), **own, "ATP_ROUTE": place.route(rank)}
            ),
        )
        for rank, host in enumerate(place.hosts)
    ]


def _with_repository(env):
    return {**env, "PYTHONPATH": f"{REPOSITORY}:{env['PYTHONPATH']}"}


def _turns(place, conductor, size):
    workload = place.workload
    iterations = 1 if workload.loss_per_cent else min(MOST_ITERATIONS, max(1, TIMED_BYTES // size))
    seconds = {way: [] for way in workload.ways}
    carried = {}
    first_timed = AUTO_WARM_UP if "atp auto" in workload.ways else 1
    for turn in range(first_timed + workload.rounds):
        for way in workload.ways:
            before = place.bytes_of_rank_0() if turn == first_timed else None
            took = conductor.turn(way, WAYS[way].kind, size, iterations, TURN_S)
            if before is not None:
                carried[way] = (place.bytes_of_rank_0() - before) / iterations
            if turn >= first_timed:
                seconds[way].append(took / iterations)
    return [_row(workload, size, way, seconds[way], carried.get(way)) for way in workload.ways]


def _row(workload, size, way, seconds, carried):
    bound = bound_s(way, workload, size)
    median = statistics.median(seconds)
    return {
        "workload": workload.name,
        "family": workload.family,
        "ranks": workload.ranks,
        "servers": workload.servers,
        "loss_per_cent": workload.loss_per_cent,
        "bytes": size,
        "way": way,
        "rounds": len(seconds),
        "median_s": median,
        "least_s": min(seconds),
        "most_s": max(seconds),
        "p99_s": statistics.quantiles(seconds, n=100)[98] if len(seconds) >= 100 else None,
        "bound_s": bound,
        "bytes_of_a_rank": carried,
    }
