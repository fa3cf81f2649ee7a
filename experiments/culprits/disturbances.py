"""What may happen to a job, and who should then be blamed."""

import dataclasses
import os
import signal
import threading
import time
from collections.abc import Callable

VICTIM = 1  # the rank, on host a2
HOST, ADDRESS = "a2", "10.77.1.12"
SWITCH, SERVER = "10.77.1.1:5501", "10.77.3.11:5500"


def program(cluster, host, word):
    """The processes on a host whose command line has this word: the program, not its supervisor."""
    found = []
    for pid in cluster[host].pids():
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except FileNotFoundError:
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


def cut(cluster, seconds):
    cluster.network.set_link(HOST, "down")
    mend = threading.Timer(seconds, cluster.network.set_link, (HOST, "up"))
    mend.start()
    return mend.join


def lose_incoming(cluster):
    cluster[HOST].drop(100)
    return lambda: cluster[HOST].exec("nft", "delete table inet lose")


@dataclasses.dataclass(frozen=True)
class Disturbance:
    name: str
    begin: Callable  # of the cluster; returns what ends it
    culprit: str = f"rank {VICTIM}"
    told: tuple[int, ...] = (0, 2, 3)  # the ranks that should name it
    patience_s: float = 8
    ends_the_job: bool = True
    spares_the_nodes: bool = True


DISTURBANCES = [
    Disturbance("a rank is killed", lambda c: kill(c, HOST, "bench")),
    Disturbance("a rank is frozen", lambda c: freeze(c, HOST, "bench")),
    Disturbance(
        "a rank runs half of the time", slow_down, told=(), patience_s=25, ends_the_job=False
    ),
    Disturbance("a rank's link is cut for 3 s", lambda c: cut(c, 3), ends_the_job=False),
    Disturbance("a rank's link is cut for 20 s", lambda c: cut(c, 20)),
    Disturbance("nothing reaches a rank", lose_incoming),
    Disturbance(
        "a switch is killed", lambda c: kill(c, "a0", "switch"), SWITCH, (0, 1),
        ends_the_job=False, spares_the_nodes=False,
    ),
    Disturbance(
        "a switch is frozen", lambda c: freeze(c, "a0", "switch"), SWITCH, (0, 1),
        ends_the_job=False, spares_the_nodes=False,
    ),
    Disturbance(
        "the server is killed", lambda c: kill(c, "s1", "server"), SERVER, (0, 1, 2, 3),
        spares_the_nodes=False,
    ),
]  # fmt: skip
