"""One worker that loses packets, in real processes: the product beside SwitchML's static pool.

Four workers, a switch and a server are hosts of their own (network namespaces). One worker loses a
share of the packets that it gets, and the switch loses the same share of the worker's. The kernel
segments nothing, so that each loss is of a single packet, as in a real network. Both systems have
equal numbers of values in a packet and of packets in flight, the same links and the same tensors.
"""

import json
import re
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from experiments.congestion.shared_link import WIRE, K, completed, start_node
from experiments.papers.real_switch import Series
from experiments.report import BUILD
from lab.network import Network

WORKERS = 4
HOSTS = [f"w{rank}" for rank in range(WORKERS)]
MBIT = 100
SUM_BYTES = 4 << 20  # as in the paper
SETTLE_S = 1  # from the first completed fragment
INTERVAL_S = 0.01  # of the counters
STALL_S = 0.02
LIMIT_S = 60
PORT = 5501
POOL_WIRE = (4 * K + 12 + 42) / (4 * K)  # bytes on the wire per byte of values


@dataclass(frozen=True)
class Atp:
    window: int
    bound = MBIT / WIRE  # Mbit/s of sums
    collapses = False

    def start(self, network, seconds):
        """Starts everything; returns the file that counts fragments, and the ranks."""
        atp = BUILD / "bin" / "atp"
        own = ("--window", self.window)
        stats = start_node(network, atp, "server", "server", *own, interval=INTERVAL_S)
        start_node(
            network, atp, "switch", "switch", "--upstream", f"{network['server'].address}/32"
        )
        route = f"{network['switch'].address}:{PORT},{network['server'].address}:5500"
        ranks = [
            network[host].start(
                *(BUILD / "bin" / "pausing_rank", SUM_BYTES, 1, 0, seconds),
                env={
                    "RANK": rank,
                    "WORLD_SIZE": WORKERS,
                    "ATP_JOB": 1,
                    "ATP_INCARNATION": 1,
                    "ATP_ROUTE": route,
                    "ATP_VALUES_PER_FRAGMENT": K,
                    "ATP_CONGESTION": "none",
                },
            )
            for rank, host in enumerate(HOSTS)
        ]
        return stats, ranks

    def repeats(self, counters):
        """Of one rank: all, and those that a timer has caused."""
        forms = ("plain", "resend", "direct", "float")
        repeats = sum(counters.get(f"repeats_{form}", 0) for form in forms)
        return repeats, max(0, repeats - counters.get("losses_inferred", 0))


@dataclass(frozen=True)
class Pool:
    """SwitchML's: experiments/papers/slot_pool."""

    slots: int
    timeout_ms: float
    bound = MBIT / POOL_WIRE

    @property
    def collapses(self):
        """A packet is repeated while the one before it is in the queue, so repeats never end."""
        return self.timeout_ms < round_trip_ms(self.slots)

    def start(self, network, seconds):
        program, address = BUILD / "bin" / "slot_pool", f"{network['switch'].address}:{PORT}"
        stats = Path(network.folder) / "pool.jsonl"
        switch = network["switch"].start(program, "switch", address, WORKERS, self.slots, stats)
        network.wait_for_line(switch, "listening on")
        own = (WORKERS, self.slots, self.timeout_ms, SUM_BYTES, seconds)
        ranks = [
            network[host].start(program, "worker", address, rank, *own)
            for rank, host in enumerate(HOSTS)
        ]
        return stats, ranks

    def repeats(self, counters):
        return counters["repeats"], counters["repeats"]


def round_trip_ms(window):
    """The round trip of a packet of the pool with a full window before it in its link's queue."""
    return window * POOL_WIRE * 4 * K * 8 / MBIT / 1000


def pool_of(window, round_trips):
    return Pool(window, round(round_trips * round_trip_ms(window), 3))


def lose(network, rate):
    """Drops this share of the packets to and from w0, as they arrive."""
    some = f"numgen random mod 100000 < {round(rate * 100_000)}"
    for host, which in (
        ("w0", ""),
        ("switch", f"ip saddr {network['w0'].address}"),
    ):
        network[host].exec("nft", "add table inet lossy")
        network[host].exec("nft", "add chain inet lossy in { type filter hook input priority 0 ; }")
        rule = f"meta l4proto udp {which} {some} counter drop"
        network[host].exec("nft", f"add rule inet lossy in {rule}")


def lost(network):
    """Packets that the rules of lose() have dropped."""
    found = 0
    for host in ("w0", "switch"):
        rules = json.loads(network[host].exec("nft", "-j", "list table inet lossy"))["nftables"]
        parts = [part for one in rules if "rule" in one for part in one["rule"]["expr"]]
        found += sum(part["counter"]["packets"] for part in parts if "counter" in part)
    return found


def busy_and_all():
    """Clock ticks of all processors since the start."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return sum(ticks) - idle, sum(ticks)


def counters_of(text):
    """The lines "# name value" that a rank prints at its end."""
    return {name: float(n) for name, n in re.findall(r"(?m)^# (\w+) ([\d.]+)$", text)}


def wait_until_begun(stats):
    """Beside other programs ranks start late, and that must not be measured."""
    end = time.monotonic() + LIMIT_S
    while not stats.exists() or completed(stats) == 0:
        if time.monotonic() > end:
            raise RuntimeError(f"no fragment within {LIMIT_S} s")
        time.sleep(INTERVAL_S)


def finish(network, ranks, seconds):
    """What the ranks have printed, or None if they have not ended in time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and any(rank.poll() is None for rank in ranks):
        time.sleep(0.05)
    texts = [rank.log.read_text(errors="replace") for rank in ranks]
    ended = all(rank.poll() is not None for rank in ranks)
    right = any("Out of bounds values : 0 OK" in text for text in texts)
    if any(rank.poll() for rank in ranks) or (ended and not right):
        raise RuntimeError(f"a sum was wrong, or a rank failed:\n{''.join(texts)[-2000:]}")
    return texts if ended else None


def stalled(series, begin, end):
    """The share of spans of STALL_S in which no fragment was completed."""
    count = int((end - begin) / STALL_S)
    spans = [(begin + n * STALL_S, begin + (n + 1) * STALL_S) for n in range(count)]
    return sum(series.between(*span, "fragments_completed") == 0 for span in spans) / count


def play(system, rate, seconds):
    """What a system does under loss; every element of every sum is checked by every rank."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Network(Path(folder), {"rack": ["switch", "server", *HOSTS]}) as network,
    ):
        for host in HOSTS:
            network.shape_host(host, MBIT)
        network.without_segmentation()
        if rate > 0:
            lose(network, rate)
        stats, ranks = system.start(network, SETTLE_S + seconds + 1)
        wait_until_begun(stats)
        time.sleep(SETTLE_S)
        begin, before = time.time(), busy_and_all()
        time.sleep(seconds)
        end, after = time.time(), busy_and_all()
        texts = finish(network, ranks, 1 if system.collapses else LIMIT_S)
        if texts is None and not system.collapses:
            raise RuntimeError(f"{system} has not ended within {LIMIT_S} s")
        series = Series(stats)
        dropped = lost(network) if rate > 0 else 0
    done = series.between(begin, end, "fragments_completed")
    repeats = [system.repeats(counters_of(text)) for text in texts or ()]
    all_repeats = sum(count for count, _ in repeats)
    return {
        "goodput_mbit": 8 * 4 * K * done / 1e6 / (end - begin),
        "stalled": stalled(series, begin, end),
        "lost": dropped,
        "repeats": all_repeats,
        "repeats_per_loss": all_repeats / dropped if dropped else 0,
        "by_timer": sum(timed for _, timed in repeats) / all_repeats if all_repeats else 0,
        "busy": (after[0] - before[0]) / (after[1] - before[1]),
    }
