"""Runs the ranks of a torch job, one process per host."""

import os
import time
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1] / "python"
# Keep freed memory in the process: fresh pages cost as much time as a fast link.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 1 << 30}


def environment(rank, hosts):
    """The variables that torchrun would set, and the path of this checkout's `atp`."""
    return {
        "PYTHONPATH": os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")]),
        "RANK": rank,
        "WORLD_SIZE": len(hosts),
        "MASTER_ADDR": hosts[0].address,
        "MASTER_PORT": 29500,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": 1,
        # Use the network.
        "ATP_HOST_MEMORY": 0,
        "ATP_ALGORITHM": "innetwork",
    }


def run_ranks(network, words, seconds, env=None, hosts=None):
    """Runs a program on hosts of a network (default: all) until it ends; returns outputs by rank.

    The first rank that fails ends the run, with that rank's output.
    """
    hosts = hosts or list(network.hosts.values())
    ranks = [
        host.start(
            *words,
            env={**environment(rank, hosts), **(env or {})},
            log=Path(network.folder) / f"{host.name}-{rank}.log",
        )
        for rank, host in enumerate(hosts)
    ]
    end = time.monotonic() + seconds
    while running := [number for number, rank in enumerate(ranks) if rank.poll() is None]:
        _check(ranks)
        if time.monotonic() > end:
            first = running[0]
            raise SystemExit(
                f"rank {first} is still running after {seconds} s:\n{_said(ranks[first])}"
            )
        time.sleep(0.05)
    _check(ranks)
    return [_said(rank) for rank in ranks]


def _check(ranks):
    for number, rank in enumerate(ranks):
        if rank.poll():
            raise SystemExit(f"rank {number} exited with code {rank.returncode}:\n{_said(rank)}")


def _said(rank):
    return rank.log.read_text(errors="replace")
