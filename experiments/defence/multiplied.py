"""What strangers make a node send to addresses that are not theirs, per byte that they send.

The forged addresses are real sockets on loopback, which only count what they get; the stranger
sends from them, and answers from its own address alone. It knows docs/inside/protocol, and may have
the key of a tenant of its own.
"""

import socket
import time

from experiments.defence.packets import (
    DIRECT,
    NACK,
    Key,
    gradient,
    header,
    join,
    join_ack,
    parameter,
    status,
    with_proof,
)
from experiments.defence.stranger import Stranger

JOB, RANKS, FRAGMENTS, VALUES = 9999, 64, 64, 2
SECONDS = 7  # more than a lease


class Forged:
    """Addresses of others, in whose name a stranger sends."""

    def __init__(self, key):
        self.key, self.sent = key, 0
        self.sockets = [Stranger(f"127.0.1.{number}") for number in range(1, RANKS)]

    def __enter__(self):
        for one in self.sockets:
            one.udp.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        return self

    def __exit__(self, *_):
        for one in self.sockets:
            one.udp.close()

    def send(self, stranger, packet, to):
        if self.key:
            packet = self.key.tag(packet, stranger.udp.getsockname())
        stranger.send(packet, to)
        self.sent += len(packet)

    def join(self, stranger, rank, route):
        """As the owner of an address joins, which hears what it has to prove."""
        fields = {"ranks": 1 << rank, "world_size": RANKS, "streams": 1, "values": VALUES}
        first = join(JOB, 1000 + rank, route, **fields)
        self.send(stranger, first, route[0])
        proof = None if stranger in self.sockets else stranger.asked(1)
        if proof:
            self.send(stranger, with_proof(first, proof), route[0])

    def got_per_byte(self):
        time.sleep(SECONDS)
        for one in self.sockets:
            one.hear()
        return sum(one.answered_bytes for one in self.sockets) / self.sent


def from_a_server(server, key=None):
    """It makes up a job, and then sends GRADIENTs of its own rank: the server asks the others."""
    with Forged(key) as forged, Stranger() as own:
        for rank, stranger in enumerate([own, *forged.sockets]):
            forged.join(stranger, rank, [server])
        time.sleep(0.2)
        for sequence in (*range(FRAGMENTS), 0):
            one = gradient(JOB, sequence, values=1, operation=7)
            forged.send(own, one, server)
        return forged.got_per_byte()


def from_a_switch(switch, key=None):
    """It is the parent of its job's tree: what it sends down, the switch copies."""
    with Forged(key) as forged, Stranger() as own:
        for rank, stranger in enumerate(forged.sockets, 1):
            forged.join(stranger, rank, [switch, own.udp.getsockname()])
        time.sleep(0.2)
        everybody = (1 << RANKS) - 1
        for rank in range(1, RANKS):
            ack = join_ack(JOB, 1000 + rank, world_size=RANKS, values=VALUES, streams=1,
                           ranks=1 << rank)  # fmt: skip
            forged.send(own, ack, switch)
        for sequence in range(FRAGMENTS):
            for one in (
                parameter(JOB, 1, sequence=sequence, ranks=everybody),
                header(NACK, JOB, sequence=sequence, ranks=everybody, flags=DIRECT),
                status(JOB, 0, about=1, ranks=everybody),
            ):
                forged.send(own, one, switch)
        return forged.got_per_byte()


def rows(nodes, key_file):
    """`nodes` starts nodes, as in defence.py; `key_file` has the line of a tenant."""
    for words, options, key in (
        ("without keys", (), None),
        ("with a tenant's key", ("--keys", key_file), Key(key_file.read_text())),
    ):
        server, _ = nodes.node("server", *options)
        switch, _ = nodes.node("switch", "--upstream", "127.0.0.0/8", *options)
        made_up = f"a made-up job {words}: bytes to forged addresses per byte sent"
        yield f"{made_up}, by a server", from_a_server(server, key), "at most 1"
        yield f"{made_up}, by a switch below the stranger", from_a_switch(switch, key), "at most 1"
