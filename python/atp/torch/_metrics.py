"""ATP_METRICS=ADDR:PORT: serves this rank's counters to Prometheus over HTTP (docs/metrics.md)."""

import contextlib
import http.server
import ipaddress
import math
import os
import re
import resource
import socket
import sys
import threading
import time

import torch.distributed as dist
from torch.distributed import distributed_c10d

from atp.torch._stats import stats

VARIABLE = "ATP_METRICS"
_CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_MOST_GROUPS = 32

# Name: type, labels, meaning. The counters of a rank's transport follow in COUNTERS; their only
# label is the group's name.
METRICS = {
    "atp_worker_info": ("gauge", "rank, world_size, host", "1; the labels identify the rank."),
    "atp_worker_operations_total": (
        "counter",
        "group, way, operation, type",
        "Operations of a group by path: atp (the network, or the host's memory), "
        "ring, peers (between ranks).",
    ),
    "atp_worker_operation_bytes_total": (
        "counter",
        "group, way, operation, type",
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
    "repeats_plain": "Fragments sent again unchanged: loss, or slow ranks.",
    "repeats_resend": "Fragments sent again so that switches send on their partial sums: loss.",
    "repeats_direct": "Fragments sent again straight to the server.",
    "repeats_float": "Fragments sent again as floats.",
    "timeouts": "Time-outs of streams: loss, or slow ranks.",
    "losses_inferred": "Losses inferred from three later answers.",
    "window_cuts_ecn": "Times the window was cut by a fifth because of an ECN mark: congestion.",
    "window_cuts_loss": "Times the window was cut because of a loss.",
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
    """The ranks' table in docs/metrics.md."""
    rows = [(name, *about) for name, about in METRICS.items()]
    rows += [(name_of(counter), "counter", "group", what) for counter, what in COUNTERS.items()]
    lines = ["| metric | type | labels | meaning |", "|---|---|---|---|"]
    for name, kind, labels, what in rows:
        lines.append(f"| `{name}` | {kind} | {f'`{labels}`' if labels else ''} | {what} |")
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
    for way in ("atp", "ring", "peers"):
        for operation, types in of[way].items():
            for dtype, figures in types.items():
                labels = {"group": group, "way": way, "operation": operation, "type": dtype}
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


class _Handler(http.server.BaseHTTPRequestHandler):
    timeout = 5

    def do_GET(self):  # noqa: N802 (the library's name)
        hosts = self.headers.get_all("Host") or []
        if len(hosts) > 1:
            self.send_error(400)
            return
        if hosts and not is_own_host(hosts[0], self.server.names):
            self.send_error(
                403,
                "request this page by the machine's address, localhost or its host's name; "
                f"{VARIABLE}=ADDR:PORT,NAME allows another name",
            )
            return
        if self.path.split("?")[0] != "/metrics":
            self.send_error(404)
            return
        body = text().encode()
        self.send_response(200)
        self.send_header("Content-Type", _CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def is_own_host(header: str, names) -> bool:
    """As `atp view` does (is_own_host): no page of another site can send such a Host header."""
    match = re.fullmatch(r"(?:\[([^]]+)]|([^:\[\]]+))(?::[0-9]*)?", header.strip().lower())
    if match is None:
        return False
    try:
        ipaddress.IPv6Address(match[1]) if match[1] else ipaddress.IPv4Address(match[2])
    except ValueError:
        return match[2] is not None and match[2] in {"localhost", *map(str.lower, names)}
    return True


class _Server(http.server.ThreadingHTTPServer):
    """Strangers get a share of the training process's descriptors,
    a newcomer takes the place of the oldest, and without descriptors the thread rests."""

    daemon_threads = True
    rest_s = 0.1

    def __init__(self, address, handler, names=()):
        self.names = {*names, socket.gethostname(), address[0]}
        self.guests: dict[socket.socket, None] = {}  # the oldest first
        self.lock = threading.Lock()
        self.refused = 0
        self.told_at = -math.inf
        super().__init__(address, handler)

    @staticmethod
    def most_guests() -> int:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return max(2, min(16, limit // 64)) if limit > 0 else 16

    def get_request(self):
        try:
            request, address = super().get_request()
        except OSError as error:
            self.refused += 1
            if time.monotonic() - self.told_at > 60:
                self.told_at = time.monotonic()
                print(
                    f"atp: {VARIABLE}: cannot accept connections ({self.refused} so far): {error}: "
                    "raise this process's limit of open files (ulimit -n)",
                    file=sys.stderr,
                )
            time.sleep(self.rest_s)
            raise
        with self.lock:
            while len(self.guests) >= self.most_guests():
                oldest = next(iter(self.guests))
                del self.guests[oldest]
                with contextlib.suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread closes it
            self.guests[request] = None
        return request, address

    def shutdown_request(self, request):
        with self.lock:
            self.guests.pop(request, None)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        pass  # the client has disconnected


_server: _Server | None = None
_owner = None  # the process that runs the thread: a forked child does not have it


def start() -> None:
    """Once per process, if ATP_METRICS is set. Failing to serve it is only a warning."""
    global _server, _owner
    where = os.environ.get(VARIABLE)
    if not where or _owner == os.getpid():
        return
    where, *names = where.split(",")
    address, port = _address_of(where)
    _owner = os.getpid()
    try:
        _server = _Server((address, port), _Handler, names)
    except OSError as error:
        print(f"atp: {VARIABLE}: no metrics at {address}:{port}: {error}", file=sys.stderr)
        return
    threading.Thread(target=_server.serve_forever, name="atp-metrics", daemon=True).start()


def _address_of(where: str) -> tuple[str, int]:
    """Each rank of a host has its own port: the variable's plus LOCAL_RANK."""
    address, colon, text_of_port = where.rpartition(":")
    local = os.environ.get("LOCAL_RANK", "0")
    if colon and address and text_of_port.isdecimal() and local.isdecimal():
        port = int(text_of_port) + int(local)
        if int(text_of_port) > 0 and port < 65536:
            return address, port
    raise ValueError(
        f'{VARIABLE}="{where}" is not ADDR:PORT, e.g. 127.0.0.1:9600 (a rank uses the port plus '
        f"LOCAL_RANK, here {local})"
    )
