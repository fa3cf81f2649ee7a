"""The counters of a group, and the flight recorder's files."""

import os

import torch
import torch.distributed as dist

from atp import _C


def stats(group: dist.ProcessGroup | None = None) -> dict:
    """Counts of this rank in `group` (default: the default group).

    {"innetwork": {"all_reduce": {"float32": {"calls": 12, "bytes": 3145728}}},
     "ring": {},                          # the same, for a group whose algorithm is the ring
     "peers": {"broadcast": {"uint8": {...}}, ...},
     "algorithm": "innetwork",            # or "ring", or "auto"
     "choice": None,                      # with "auto", see below
     "host_memory": False,                # whether the ranks sum in memory that they share
     "bytes_sent": 6291456,               # for the sums, first transmissions, see below
     "bytes_sent_again": 0,
     "counters": {name: number, ...},     # what this rank sent, got, repeated and dropped
     "values_per_fragment": 350,
     "waiting_for": None,                 # or the ranks that the oldest sum waits for, see below
     "waited_s": {2: 12.3},               # how long sums have waited for each rank, see below
     "digest": {"operations": 12, "value": "1f0c…"}}  # None if none is kept; see digest()

    choice: {"reason": "…", "innetwork": 40, "ring": 12, "trials": 1, "judgements": 0, "changes": 0,
    "ring_from_bytes": 65536}: the reason for the choice and, if the group has both algorithms, the
    number of sums with each, how many of them were trials of the slower one, how often all
    ranks have compared their times, how often that has changed the choice for a size, and the size
    from which sums now take the ring (None: no sum takes it).

    waiting_for: {"ranks": [2], "seconds": 3.2, "operation": "all_reduce #17 (1,000 values)"}: the
    ranks for which this rank's oldest operation has waited for a second or more. None if it waits
    for no rank.

    waited_s: the seconds that this rank's operations have waited for other ranks, by rank, in all
    waits that have ended. Of sums in the network: for one other rank alone, from this rank's first
    repeated packet on, so shorter delays appear only in `atp status`, which has every rank's
    lateness. Of all other operations: waits of a second or more.

    The bytes of an operation are the size of this rank's input. In a group of one rank everything
    is under "peers".

    bytes_sent is counted at the system calls. On a ring, it counts the tensors' bytes: 2(N-1)/N of
    an all-reduce's, (N-1)/N of a reduce-scatter's and an all-gather's (TCP retransmits by itself,
    so bytes_sent_again stays 0). An all-reduce of float32 also sends its exponents in the same way,
    2 bytes per block of 256 values; a small or exact one sends N-1 times its bytes and nothing
    else. In the network, it counts whole packets without IP and UDP headers.
    """
    backend = backend_of(group if group is not None else dist.group.WORLD)
    paths: dict = {"innetwork": {}, "ring": {}, "peers": {}}
    for path, operation, dtype, calls, size in backend.traffic():
        paths[path].setdefault(operation, {})[dtype] = {"calls": calls, "bytes": size}
    counters = dict(backend.counters())
    sent, again = _bytes_sent(counters)
    return {
        **paths,
        "algorithm": _algorithm_of(backend),
        "choice": _choice_of(backend),
        "host_memory": "memory_pieces" in counters,
        "bytes_sent": sent,
        "bytes_sent_again": again,
        "counters": counters,
        "values_per_fragment": backend.values_per_fragment(),
        "waiting_for": backend.waited_for(),
        "waited_s": backend.waits(),
        "digest": _digest_of(backend),
    }


def digest(group: dist.ProcessGroup | None = None, restart: bool = False) -> str:
    """32 hexadecimal digits: a digest of all results that `group` has summed in the network so far.

    It is equal on all ranks, in every run with the same inputs, on one host or on many. The call
    waits for operations in progress. A group of one rank sums nothing in the network, so its
    digest is that of no results.

    restart: the next operation is the first of a new digest. So a run resumed from its checkpoint
        can be compared with the last part of an uninterrupted run.

    Needs Options(digest=True) or digest_every, or ATP_DIGEST=1; without them, or with
    algorithm="ring", it raises a ValueError.
    """
    backend = backend_of(group if group is not None else dist.group.WORLD)
    if backend.sums_around_ring:
        what = "this group" if backend.choice else "a group with algorithm='ring'"
        why = f"it sums {backend.choice}" if backend.choice else "use algorithm='innetwork'"
        raise ValueError(f"{what} keeps no digest; {why}")
    reading = backend.final_digest(restart)
    if reading is None and backend.size() == 1:
        return "0" * 32
    if reading is None:
        raise ValueError(
            "this group keeps no digest: create it with pg_options=atp.torch.Options(digest=True), "
            "or set ATP_DIGEST=1"
        )
    return reading[1]


def _algorithm_of(backend) -> str:
    if backend.choice:
        return "auto"
    return "ring" if backend.sums_around_ring else "innetwork"


def _choice_of(backend) -> dict | None:
    if not backend.choice:
        return None
    counts = backend.tuner_counts()
    return {"reason": backend.choice, **(counts or {})}


def _digest_of(backend) -> dict | None:
    reading = backend.digest()
    return reading and {"operations": reading[0], "value": reading[1]}


def _bytes_sent(counters: dict[str, int]) -> tuple[int, int]:
    """(first transmissions, repeats) in bytes of the sums."""
    of_ring = counters.get("ring_bytes_sent", 0)
    again = counters.get("repeat_bytes_sent", 0)
    return of_ring + counters.get("gradient_bytes_sent", 0) - again, again


def write_flight_records(folder: str | os.PathLike | None = None) -> list[str]:
    """Writes what this rank did last to one file per rank of this process; returns their paths.

    folder: where to write them; by default the folder of ATP_FLIGHT_RECORDER. `atp report FOLDER`
        merges the files of all ranks (docs/operate/flight-recorder.md).
    """
    return _C.write_records(folder=os.fspath(folder) if folder is not None else "")


def backend_of(group: dist.ProcessGroup) -> _C.InNetworkGroup:
    if group is None:
        raise ValueError("there is no default group: call init_process_group() first")
    if not isinstance(group, dist.ProcessGroup):
        raise TypeError(f"found {group!r}, expected a process group")
    backend = group._get_backend(torch.device("cpu"))
    # With TORCH_DISTRIBUTED_DEBUG=DETAIL there is a wrapper around it.
    backend = getattr(backend, "wrapped_pg", backend)
    if isinstance(backend, getattr(_C, "ReconfigurableGroup", ())):
        backend = backend.member()
    if not isinstance(backend, _C.InNetworkGroup):
        raise ValueError(f"this group's backend is {dist.get_backend(group)}, not atp")
    return backend
