"""The ranks of a job of torch, one process on each of some hosts."""

import os
import time
from pathlib import Path

PYTHON = Path(__file__).resolve().parents[1] / "python"
# Memory that stays with the process: fresh pages cost as much time as a fast link.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": 32 << 20, "MALLOC_TRIM_THRESHOLD_": 1 << 30}


def environment(rank, hosts):
    """What torchrun would set, and where this checkout's `atp` is."""
    return {
        "PYTHONPATH": os.pathsep.join([str(PYTHON), os.environ.get("PYTHONPATH", "")]),
        "RANK": rank,
        "WORLD_SIZE": len(hosts),
        "MASTER_ADDR": hosts[0].address,
        "MASTER_PORT": 29500,
        "GLOO_SOCKET_IFNAME": "eth0",
        "OMP_NUM_THREADS": 1,
        "ATP_HOST_MEMORY": 0,  # a lab is of networks
    }


def run_ranks(network, words, seconds, env=None, hosts=None):
    """Runs one program on hosts of a network (default: all) to its end; the outputs, by rank.

    The first rank that fails ends it, with what that rank said.
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
            raise SystemExit(f"rank {first} still runs after {seconds} s:\n{_said(ranks[first])}")
        time.sleep(0.05)
    _check(ranks)
    return [_said(rank) for rank in ranks]


def _check(ranks):
    for number, rank in enumerate(ranks):
        if rank.poll():
            raise SystemExit(f"rank {number} ended with {rank.returncode}:\n{_said(rank)}")


def _said(rank):
    return rank.log.read_text(errors="replace")
