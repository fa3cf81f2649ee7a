"""ATP_METRICS=ADDR:PORT: serves this rank's counters to Prometheus (docs/operate/metrics.md)."""

import atexit
import os
import resource
import socket
import sys

import torch.distributed as dist
from torch.distributed import distributed_c10d

from atp import _C
from atp.torch._stats import stats

VARIABLE = "ATP_METRICS"
_MOST_GROUPS = 32

# Name: type, labels, meaning. The counters of a rank's transport follow in COUNTERS; their only
# label is the group's name.
METRICS = {
    "atp_worker_info": ("gauge", "rank, world_size, host", "1; the labels identify the rank."),
    "atp_worker_operations_total": (
        "counter",
        "group, path, operation, type",
        "Operations of a group by path: innetwork (or the host's memory), ring, peers (between "
        "ranks).",
    ),
    "atp_worker_operation_bytes_total": (
        "counter",
        "group, path, operation, type",
        "Bytes of this rank's input to a group's operations, by path.",
    ),
    "atp_worker_waiting_seconds": (
        "gauge",
        "group, for_rank",
        "How long the group's oldest operation has waited for that rank, if for a second or more.",
    ),
    "atp_worker_drops_total": ("counter", "group, reason", "Packets dropped, by reason."),
    "process_cpu_seconds_total": ("counter", "", "Processor time, user and system."),
    "process_resident_memory_bytes": ("gauge", "", "Memory in use."),
}

COUNTERS = {
    "gradients_sent": "Fragments sent for the first time.",
    "gradients_direct": "Fragments whose first transmission went straight to the server.",
    "repeats_plain": "Fragments sent again unchanged: loss, or stragglers.",
    "repeats_resend": "Fragments sent again so that switches send on their partial sums: loss.",
    "repeats_direct": "Fragments sent again straight to the server.",
    "repeats_float": "Fragments sent again as floats.",
    "timeouts": "Time-outs of streams: loss, or stragglers.",
    "losses_inferred": "Losses inferred from three later answers.",
    "window_cuts_ecn": "Times the window was cut by a fifth because of an ECN mark: congestion.",
    "window_cuts_loss": "Times the window was cut because of a loss.",
    "room_cuts": "Times collisions cut how many fragments may be in flight: scarcity.",
    "parameters_received": "Sums received.",
    "parameters_duplicate": "Sums received again.",
    "parameters_collided": "Sums that had no aggregator in some switch: scarcity.",
    "parameters_ecn": "Sums with an ECN mark: congestion.",
    "waiting_for_received": "Times the server reported the ranks it waits for.",
    "detachments": "Times this rank left the switches for the server.",
    "returns": "Times this rank returned to the switches.",
    "operations_completed": "Parts of operations that were completed in the network.",
    "operations_failed": "Parts of operations that failed.",
    "gradient_bytes_sent": "UDP payload of the fragments sent, repeats included.",
    "repeat_bytes_sent": "UDP payload of the fragments sent again.",
    "parameter_bytes_received": "UDP payload of the sums received.",
    "udp_ip_bytes_in": "Bytes received, with IP and UDP headers.",
    "udp_ip_bytes_out": "Bytes sent, with IP and UDP headers.",
    "udp_lost_queue_full": "Datagrams not sent: the send buffer stayed full.",
    "memory_pieces": "Pieces of tensors summed in the host's memory.",
    "memory_bytes_written": "Bytes written to the host's shared memory.",
    "ring_bytes_sent": "Bytes of tensors sent around a ring.",
    "ring_bytes_received": "Bytes of tensors received around a ring.",
}


def name_of(counter: str) -> str:
    """The unit goes last: udp_ip_bytes_in is atp_worker_udp_ip_in_bytes_total."""
    words = counter.split("_")
    if "bytes" in words:
        words.remove("bytes")
        words.append("bytes")
    return "_".join(["atp_worker", *words, "total"])


def table() -> str:
    """The ranks' table in docs/operate/metrics.md."""
    rows = [(name, *about) for name, about in METRICS.items()]
    rows += [(name_of(counter), "counter", "group", what) for counter, what in COUNTERS.items()]
    lines = ["| metric | labels | meaning |", "|---|---|---|"]
    for name, _, labels, what in rows:
        lines.append(f"| `{name}` | {f'`{labels}`' if labels else ''} | {what} |")
    return "\n".join(lines) + "\n"


def text() -> str:
    """All metrics of this process."""
    families: dict[str, list[str]] = {}

    def add(name, value, **labels):
        inside = ",".join(f'{key}="{_escaped(value)}"' for key, value in labels.items())
        families.setdefault(name, []).append(
            f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"
        )

    if dist.is_initialized():
        host = socket.gethostname()
        add("atp_worker_info", 1, rank=dist.get_rank(), world_size=dist.get_world_size(), host=host)
    for name, group_stats in _all_stats():
        _add_group(add, name, group_stats)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    add("process_cpu_seconds_total", usage.ru_utime + usage.ru_stime)
    with open("/proc/self/statm") as file:
        add("process_resident_memory_bytes", int(file.read().split()[1]) * resource.getpagesize())
    about = {name: (kind, what) for name, (kind, _, what) in METRICS.items()}
    about |= {name_of(counter): ("counter", what) for counter, what in COUNTERS.items()}
    lines = []
    for name, samples in families.items():
        kind, what = about[name]
        lines += [f"# HELP {name} {what}", f"# TYPE {name} {kind}", *samples]
    return "\n".join(lines) + "\n"


def _escaped(value) -> str:
    return str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _all_stats():
    """(name, stats) of each group of this process that is atp's."""
    found = []
    for group, name in list(distributed_c10d._world.pg_names.items()):
        if len(found) == _MOST_GROUPS:
            break
        try:
            found.append((name, stats(group)))
        except (ValueError, RuntimeError):
            continue  # another backend's group, or one that is being destroyed
    return found


def _add_group(add, group, of):
    for path in ("innetwork", "ring", "peers"):
        for operation, types in of[path].items():
            for dtype, figures in types.items():
                labels = {"group": group, "path": path, "operation": operation, "type": dtype}
                add("atp_worker_operations_total", figures["calls"], **labels)
                add("atp_worker_operation_bytes_total", figures["bytes"], **labels)
    if of["waiting_for"]:
        for rank in of["waiting_for"]["ranks"]:
            seconds = of["waiting_for"]["seconds"]
            add("atp_worker_waiting_seconds", seconds, group=group, for_rank=rank)
    for counter, value in of["counters"].items():
        if counter.startswith("drop_"):
            add("atp_worker_drops_total", value, group=group, reason=counter.removeprefix("drop_"))
        elif counter in COUNTERS:
            add(name_of(counter), value, group=group)


_server: _C.MetricsServer | None = None
_owner = None  # the process that runs the thread: a forked child does not have it


def start() -> None:
    """Once per process, if ATP_METRICS is set. Failing to serve it is only a warning."""
    global _server, _owner
    where = os.environ.get(VARIABLE)
    if not where or _owner == os.getpid():
        return
    where, *names = where.split(",")
    at = _address_of(where)
    _owner = os.getpid()
    try:
        _server = _C.MetricsServer(at, names, text)
    except RuntimeError as error:
        print(f"atp: {VARIABLE}: no metrics at {at}: {error}", file=sys.stderr)
        return
    atexit.register(_server.stop)  # its thread calls Python


def _address_of(where: str) -> str:
    """Each rank of a host has its own port: the variable's plus LOCAL_RANK."""
    address, colon, text_of_port = where.rpartition(":")
    local = os.environ.get("LOCAL_RANK", "0")
    if colon and address and text_of_port.isdecimal() and local.isdecimal():
        port = int(text_of_port) + int(local)
        if int(text_of_port) > 0 and port < 65536:
            return f"{address}:{port}"
    raise ValueError(
        f'{VARIABLE}="{where}" is not ADDR:PORT, e.g. 127.0.0.1:9600 (a rank uses the port plus '
        f"LOCAL_RANK, here {local})"
    )
