"""What may happen to a job, and who should then be blamed."""

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable

VICTIM = 1  # the rank, on host a2
HOST, ADDRESS = "a2", "10.77.1.12"
SWITCH, SPINE, SERVER = "10.77.1.1:5501", "10.77.3.1:5501", "10.77.3.11:5500"
KEYS = "keys"  # the nodes' file, in the cluster's folder


def program(cluster, host, word):
    """The processes on a host whose command line has this word: the program, not its supervisor."""
    found = []
    for pid in cluster[host].pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except (FileNotFoundError, ProcessLookupError):
            continue  # one of the watcher's `atp status`, which has just ended
        if words[1:2] == [word.encode()]:
            found.append(pid)
    assert found, f"no {word} runs on {host}"
    return found


def send(cluster, host, word, number):
    for pid in program(cluster, host, word):
        os.kill(pid, number)


def freeze(cluster, host, word):
    send(cluster, host, word, signal.SIGSTOP)
    return lambda: send(cluster, host, word, signal.SIGCONT)


def kill(cluster, host, word):
    send(cluster, host, word, signal.SIGKILL)
    return lambda: None


def slow_down(cluster):
    """The rank runs half of the time, so that each of its operations takes twice as long."""
    pids, over = program(cluster, HOST, "bench"), threading.Event()

    def alternate():
        while not over.is_set():
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in pids:
                    os.kill(pid, number)
                time.sleep(0.02)

    thread = threading.Thread(target=alternate)
    thread.start()

    def end():
        over.set()
        thread.join()

    return end


def for_a_while(cluster, seconds, begin):
    """Begins something that ends by itself."""
    end = begin(cluster)
    timer = threading.Timer(seconds, end)
    timer.start()
    return timer.join


def cut(cluster, host=None, uplink=None):
    set_link = cluster.network.set_link if host else cluster.network.set_uplink
    set_link(host or uplink, "down")
    return lambda: set_link(host or uplink, "up")


def flap(cluster, times=3):
    """The rank's link is down for a second and up for a second, over and over."""

    def alternate():
        for _ in range(times):
            for state in ("down", "up"):
                cluster.network.set_link(HOST, state)
                time.sleep(1)

    thread = threading.Thread(target=alternate)
    thread.start()
    return thread.join


def cut_one_way(cluster, sender, receiver):
    """Packets no longer come from one host to the other; the other direction works."""
    cluster[receiver].drop_udp_from(cluster[sender].address)
    return cluster[receiver].end_drops


def lose_incoming(cluster):
    cluster[HOST].drop(100)
    return lambda: cluster[HOST].exec("nft", "delete table inet lose")


def drain(cluster, host, address):
    cluster[host].start(cluster.atp, "drain", address)
    time.sleep(1)
    return lambda: None


def remove_key(cluster):
    """Takes the tenant's key out of the nodes' file, and has all of them read it again at once: a
    node that did so before the others would be rightly named.
    """
    pids = [pid for host, word in NODES.items() for pid in program(cluster, host, word)]
    (cluster.network.folder / KEYS).write_text(f"other {'ab' * 32}\n")
    for pid in pids:
        os.kill(pid, signal.SIGHUP)
    return lambda: None


NODES = {"a0": "switch", "b0": "switch", "s0": "switch", "s1": "server"}
RANKS = (0, 1, 2, 3)
RECOVERY_S, AFTERWARDS_S = 1.5, 5


@dataclasses.dataclass(frozen=True)
class Disturbance:
    """`told` says whom each rank should name. A rank may also name those in `also`, for example the
    ranks that wait for others behind the link that was cut. With `over_s` the trial lasts
    AFTERWARDS_S longer than the disturbance: once it has been over for RECOVERY_S, no rank may name
    anybody, and the job must still run.
    """

    name: str
    begin: Callable  # of the cluster; returns what ends it
    culprit: str = f"rank {VICTIM}"
    told: dict = dataclasses.field(default_factory=lambda: {n: f"rank {VICTIM}" for n in (0, 2, 3)})
    also: tuple[str, ...] = ()
    patience_s: float = 8
    new_job: bool = False  # who is named by a job that starts afterwards
    keys: bool = False
    lease_s: int = 5
    over_s: float | None = None
    in_places: bool = True  # whether status, metrics and page can know


def node(name, begin, address, ranks, **more):
    """A disturbance for which these ranks should name this node."""
    return Disturbance(name, begin, address, {rank: address for rank in ranks}, **more)


def link(name, begin, address, ranks, **more):
    """The same, where the node works and only a link of it does not."""
    also = tuple(f"rank {rank}" for rank in ranks)
    return node(name, begin, address, ranks, also=also, in_places=False, **more)


DISTURBANCES = [
    Disturbance("a rank is killed", lambda c: kill(c, HOST, "bench")),
    Disturbance("a rank is frozen", lambda c: freeze(c, HOST, "bench")),
    Disturbance(
        "a rank freezes for 10 s, of a lease of 15",
        lambda c: for_a_while(c, 10, lambda c: freeze(c, HOST, "bench")), over_s=10, lease_s=15,
    ),
    Disturbance("a rank runs half of the time", slow_down, told={}, patience_s=25),
    Disturbance(
        "a rank's link is cut for 3 s", lambda c: for_a_while(c, 3, lambda c: cut(c, HOST))
    ),
    Disturbance(
        "a rank's link is cut for 20 s", lambda c: for_a_while(c, 20, lambda c: cut(c, HOST))
    ),
    Disturbance(
        "a rank's link is down for 1 s three times", flap, told={}, over_s=6, in_places=False
    ),
    Disturbance("nothing reaches a rank", lose_incoming),
    node("a rack's switch is killed", lambda c: kill(c, "a0", "switch"), SWITCH, (0, 1)),
    node("a rack's switch is frozen", lambda c: freeze(c, "a0", "switch"), SWITCH, (0, 1)),
    node(
        "a rack's switch is frozen for 10 s",
        lambda c: for_a_while(c, 10, lambda c: freeze(c, "a0", "switch")), SWITCH, (0, 1),
        over_s=10,
    ),
    node("the switch above is killed", lambda c: kill(c, "s0", "switch"), SPINE, RANKS),
    node("the switch above is frozen", lambda c: freeze(c, "s0", "switch"), SPINE, RANKS),
    node(
        "the switch above is frozen for 2 s",
        lambda c: for_a_while(c, 2, lambda c: freeze(c, "s0", "switch")), SPINE, RANKS,
        in_places=False,
    ),
    Disturbance(
        "the switch above is frozen for 0.3 s",
        lambda c: for_a_while(c, 0.3, lambda c: freeze(c, "s0", "switch")), SPINE, {},
        in_places=False, patience_s=5,
    ),
    node(
        "the link of the switch above is cut",
        lambda c: for_a_while(c, 10, lambda c: cut(c, "s0")), SPINE, RANKS,
    ),
    node("the server is killed", lambda c: kill(c, "s1", "server"), SERVER, RANKS),
    node("the server is frozen", lambda c: freeze(c, "s1", "server"), SERVER, RANKS),
    Disturbance(
        "a rack's uplink is cut", lambda c: for_a_while(c, 10, lambda c: cut(c, uplink="a")),
        SPINE, {0: SPINE, 1: SPINE, 2: "rank 0", 3: "rank 1"}, ("rank 0", "rank 1", SPINE),
        in_places=False,
    ),
    link("rank to its switch", lambda c: cut_one_way(c, HOST, "a0"), SWITCH, (1,)),
    link("a switch to its rank", lambda c: cut_one_way(c, "a0", HOST), SWITCH, (1,)),
    link("a switch to the one above", lambda c: cut_one_way(c, "a0", "s0"), SPINE, (0, 1)),
    link("from above to a switch", lambda c: cut_one_way(c, "s0", "a0"), SPINE, (0, 1)),
    link("the switch above to the server", lambda c: cut_one_way(c, "s0", "s1"), SERVER, RANKS),
    link("the server to the switch above", lambda c: cut_one_way(c, "s1", "s0"), SERVER, RANKS),
    node(
        "a rack's switch drains", lambda c: drain(c, "a0", SWITCH), SWITCH, (0, 1), new_job=True,
        in_places=False,
    ),
    node(
        "the switch above drains", lambda c: drain(c, "s0", SPINE), SPINE, RANKS, new_job=True,
        in_places=False,
    ),
    node(
        "the server drains", lambda c: drain(c, "s1", SERVER), SERVER, RANKS, new_job=True,
        in_places=False, patience_s=12,
    ),
    node(
        "the tenant's key is removed", remove_key, SERVER, RANKS, also=(SWITCH, "10.77.2.1:5501"),
        keys=True, in_places=False,
    ),
]  # fmt: skip
