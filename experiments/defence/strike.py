"""One attack, in the network namespace of the stranger's host, which needs root there.

    strike.py WORLD ROW     WORLD: a JSON file that says what this stranger knows

Prints "attacking" when it has begun, and ends on SIGTERM, with what it has sent.
"""

import contextlib
import json
import os
import random
import select
import signal
import socket
import struct
import sys
import time

from experiments.defence import attacks
from experiments.defence.forge_icmp import checksum, quoted
from experiments.defence.packets import JOIN, Key, is_prove, name_of, proof_in, with_proof

AGAIN = 200


class Over(Exception):
    pass


class World:
    """What the stranger knows, and how it sends."""

    def __init__(self, facts):
        self.__dict__.update(facts)
        self.sent = self.sent_bytes = self.got_bytes = 0
        self.own = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.own.bind((self.stranger, 0))
        self.own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
        self.nodes = {name: tuple(address) for name, address in self.nodes.items()}
        self.switches = [self.nodes[name] for name in ("a0", "b0", "s0")]
        self.server = self.nodes["s1"]
        self.joins = {}  # from the own address, by node and job

    def member(self):
        """An address and port of a rank."""
        address, ports = random.choice(self.ranks)
        return address, random.choice(ports)

    def ranks_member(self, number):
        address, ports = self.ranks[number]
        return address, random.choice(ports)

    def own_address(self):
        return self.own.getsockname()

    def route(self, first):
        """From a switch to the server."""
        if first == self.server:
            return [first]
        above = [] if first == self.nodes["s0"] else [self.nodes["s0"]]
        return [first, *above, self.server]

    def captured(self, *kinds, earlier=False):
        """Packets seen on the wire: [(source, target, payload)], of these types and codes."""
        found = []
        for file in [self.capture, *([self.earlier_capture] if earlier else [])]:
            with open(file) as lines:
                for line in lines:
                    source, port, target, to_port, text = json.loads(line)
                    payload = bytes.fromhex(text)
                    if not kinds or name_of(payload) in kinds:
                        found.append(((source, port), (target, to_port), payload))
        random.shuffle(found)
        return found

    def send(self, source, target, payload):
        """From the stranger's own socket, or with a forged source."""
        with contextlib.suppress(OSError):
            if source is None:
                if payload[1:2] == bytes([JOIN]):
                    self.joins[tuple(target), payload[4:12]] = payload
                self.own.sendto(payload, target)
            else:
                self.raw.sendto(udp_packet(source, target, payload), (target[0], 0))
            self.sent += 1
            self.sent_bytes += len(payload)

    def hear(self, size, node):
        """A node that asks for a proof gets the JOIN again, since the own address is no secret."""
        self.got_bytes += size
        heard = bytes(self.own_buffer[:size])
        sent = size > 48 and is_prove(heard) and self.joins.pop((node, heard[4:12]), None)
        if sent:
            proven = with_proof(sent, proof_in(heard))
            if sent[38]:
                proven = Key(self.other_key).tag(proven, self.own_address())
            self.own.sendto(proven, node)


def udp_packet(source, target, payload):
    """The kernel fills in length and checksum of the IP header; UDP's 0 is not checked."""
    udp = struct.pack(">HHHH", source[1], target[1], 8 + len(payload), 0) + payload
    ip = struct.pack(">BBHHHBBH", 0x45, 2, 0, random.getrandbits(16), 0x4000, 64, 17, 0)
    return ip + socket.inet_aton(source[0]) + socket.inet_aton(target[0]) + udp


def send_packets(world, row):
    """At most row.rate a second; what comes back is read and counted."""
    begin, world.own_buffer = time.monotonic(), bytearray(65536)
    for number, (source, target, payload) in enumerate(row.make(world)):
        world.send(source, target, payload)
        if row.rate < 200 or number % 20 == 0:
            with contextlib.suppress(BlockingIOError):
                while True:
                    world.hear(*world.own.recvfrom_into(world.own_buffer, 0, socket.MSG_DONTWAIT))
            time.sleep(max(0, begin + number / row.rate - time.monotonic()))


def send_icmp(world, row):
    begin = time.monotonic()
    for number, (code, host, target, payload) in enumerate(row.make(world)):
        packet = quoted(*host, *target, payload)
        body = struct.pack("!BBHI", 3, code, 0, 600 if code == 4 else 0) + packet
        body += bytes(len(body) % 2)
        body = body[:2] + struct.pack("!H", checksum(body)) + body[4:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, 1, 0)
        ends = target[0].packed + host[0].packed  # as if the target's host had sent it
        world.raw.sendto(ip + ends + body, (str(host[0]), 0))
        world.sent += 1
        world.sent_bytes += len(body)
        if number % 20 == 0:
            time.sleep(max(0, begin + number / row.rate - time.monotonic()))


def hold_connections(world, row):
    """Keeps row.rate connections open to the ports that the row names, and opens at most AGAIN a
    second in place of those that were closed.

    The row makes their plans.
    """
    epoll, plans = select.epoll(), list(row.make(world))
    begin = time.monotonic()
    connections, drip_at, opened = {}, begin + 1, 0
    while True:
        may_open = row.rate + AGAIN * (time.monotonic() - begin) - opened
        for _ in range(min(100, row.rate - len(connections), int(may_open))):
            opened += 1
            plan = random.choice(plans)
            connection = socket.socket()
            connection.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                connection.connect(plan.to)
            connections[connection.fileno()] = connection, plan
            epoll.register(connection, select.EPOLLOUT)
        for descriptor, events in epoll.poll(0.05):
            connection, plan = connections[descriptor]
            try:
                if events & select.EPOLLOUT:
                    world.sent_bytes += connection.send(plan.first or b"")
                    world.sent += 1
                    if plan.leaves:
                        raise OSError("that was all")
                    epoll.modify(connection, select.EPOLLRDHUP | plan.reads * select.EPOLLIN)
                elif events != select.EPOLLIN or not connection.recv(65536):
                    raise OSError("closed")
            except OSError:
                epoll.unregister(connection)
                connection.close()
                del connections[descriptor]
        if time.monotonic() > drip_at:
            drip_at = time.monotonic() + 1
            for connection, plan in connections.values():
                if plan.each_second:
                    with contextlib.suppress(OSError):
                        world.sent_bytes += connection.send(plan.each_second)


def send_syns(world, row):
    begin = time.monotonic()
    for number, (host, target) in enumerate(row.make(world)):
        ends = socket.inet_aton(host) + socket.inet_aton(target[0])
        words = (random.randrange(1024, 65536), target[1], random.getrandbits(32), 0)
        tcp = struct.pack(">HHIIBBHHH", *words, 5 << 4, 2, 65535, 0, 0)
        tcp = tcp[:16] + struct.pack("!H", checksum(ends + bytes([0, 6, 0, 20]) + tcp)) + tcp[18:]
        ip = struct.pack(">BBHHHBBH", 0x45, 0, 0, 0, 0x4000, 64, 6, 0) + ends
        with contextlib.suppress(OSError):
            world.raw.sendto(ip + tcp, (target[0], 0))
            world.sent += 1
            world.sent_bytes += len(tcp)
        if number % 20 == 0:
            time.sleep(max(0, begin + number / row.rate - time.monotonic()))


def freeze(world, row):
    pids = row.make(world)
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
            world.sent += 1
        time.sleep(1e6)
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


WAYS = {
    "udp": send_packets,
    "icmp": send_icmp,
    "syn": send_syns,
    "tcp": hold_connections,
    "freeze": freeze,
}


def main(file, name):
    def end(*_):
        raise Over

    signal.signal(signal.SIGTERM, end)
    with open(file) as facts:
        world = World(json.load(facts))
    known = [attacks.MEETING, *attacks.ROWS, *attacks.CONTROLS]
    row = next(one for one in known if one.name == name)
    before = sum(os.times()[:2])
    try:
        print("attacking", flush=True)
        WAYS[row.way](world, row)
        time.sleep(1e6)  # there was nothing to send
    except Over:
        found = {"packets": world.sent, "sent": world.sent_bytes, "got": world.got_bytes,
                 "cpu_s": sum(os.times()[:2]) - before}  # fmt: skip
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
