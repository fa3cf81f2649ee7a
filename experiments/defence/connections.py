"""TCP connections that a stranger opens: to which ports, and what it says on them."""

import dataclasses
import itertools
import random


@dataclasses.dataclass(frozen=True)
class Plan:
    """Of one connection."""

    to: tuple
    first: bytes = b""
    each_second: bytes = b""
    reads: bool = False
    leaves: bool = False


def connections(ports, **plan):
    return lambda w: [Plan(tuple(to), **plan) for to in w.tcp[ports]]


def requests(ports, *hosts, path="/metrics"):
    texts = [f"GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode() for host in hosts]
    return lambda w: [Plan(tuple(to), one, reads=True) for to in w.tcp[ports] for one in texts]


def half_open(ports):
    """SYNs from addresses that never answer."""

    def make(w):
        for number in itertools.count():  # few addresses: the kernel asks the network for each
            yield f"10.77.200.{number % 100 + 1}", random.choice(w.tcp[ports])

    return make
