"""One rank of a job, written from docs/protocol.md alone: nothing was taken from atp's sources.

It proves that the page is enough to write a worker, and keeps it so: what this file needs to know
must stand there. With numbers.py it is all that a rank needs to share a job through switches, with
loss. It leaves out what only makes a worker faster or reports more: round trips (so that no NACK is
early), probes, rule 11 of Loss, rule 9 of Blocks, a window that adapts, *server lost*, versions.
detaching.py adds the path around a dead switch. Comments name the sections of the page.
"""

import os
import random
import select
import socket
import struct
import time
from collections import deque, namedtuple
from enum import IntEnum
from types import SimpleNamespace

import numpy as np

from .numbers import EXACT, EXPONENTS, FORMAT_BLOCKS, Operation, fmix32

Type = IntEnum("Type", "GRADIENT PARAMETER FLUSH NACK JOIN JOIN_ACK LEAVE STATUS", start=0)
WAITING, MISMATCH, TAKEN, UNKNOWN_JOB, _, REFUSED, LEASE_ENDED, _, RESTARTED, LEFT = range(10)
RESEND, DIRECT, FLOAT, ALL_FLAGS = 1, 2, 32, 63
HEADER, STATUS = struct.Struct(">4B2I2HQ3I4B"), struct.Struct(">4HQ")  # §3, §3.2
JOIN, JOIN_ACK = struct.Struct(">2Q4H4BI2BH"), struct.Struct(">2Qd3I4H2BH")  # §3.1
FIELDS = "version type flags words job incarnation stream count sequence index operation next_index"
Header = namedtuple("Header", f"{FIELDS} kind hops tag zero")
NO_ROOM = (7, 10, 12)  # reasons of a refusal
JOINING, MEMBER, LEAVING, ENDED = range(4)  # states of a Worker
TREE, STRAIGHT = False, True  # paths
WINDOW, TIME_OUT, NEVER = 64, 0.1, float("inf")  # packets; seconds: Loss, rule 6


class ProtocolError(Exception):
    """The job is over for this rank."""


def ranks_in(bitmap):  # as one number
    return int.from_bytes(np.frombuffer(bitmap, ">u8").astype("<u8").tobytes(), "little")


class Worker:
    """`route` is a list of (IPv4 address, port): the switches upward, the server last."""

    def __init__(
        self, job, incarnation, rank, world_size, route, streams, values=350,
        number_format=FORMAT_BLOCKS, udp=None, first_stream=0,
    ):  # fmt: skip
        self.ids, self.shape = (job, incarnation), (world_size, first_stream, streams)
        self.rank, self.k, self.number_format = rank, values, number_format
        self.route, self.parent, self.server = route, route[0], route[-1]
        self.words = -(-world_size // 64)
        bitmap = (1 << rank).to_bytes(8 * self.words, "little")
        self.bitmap = np.frombuffer(bitmap, "<u8").astype(">u8").tobytes()
        self.udp = udp or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)  # ECT(0): §4, ECN
        self.udp.setblocking(False)
        self.nonce, self.boot_id, self.lease = int.from_bytes(os.urandom(8), "big"), 0, 5.0
        self.path, self.detachments = TREE, 0
        self.streams, self.operations, self.missing = [], [], 0
        self.all_again = False  # when a JOIN is answered through the tree
        self.enter(JOINING)

    def join(self):
        self.wait_until(lambda: self.state == MEMBER, 10, "the beginning of the job")

    def submit(self, values, reduction="sum", segments=(), tag=0, whole=None):
        """§5, Operations. `whole` is the length of an operation of which this is one part."""
        how = self.shape[0], self.number_format, list(segments) or [len(values)], tag, whole
        operation = Operation(len(self.operations), values, reduction, *how)
        self.operations.append(operation)
        for part in operation.parts:
            stream = self.streams[-1]  # the express stream
            if not operation.small and part.kind != EXPONENTS:
                stream = min(self.streams[:-1], key=lambda s: (s.values, s.number))
                stream.values += len(part.values)
            for start, end in part.cut(self.k):
                place = dict(stream=stream, sequence=stream.end, operation=operation, part=part)
                fragment = SimpleNamespace(**place, start=start, end=end, repeats=0, again=False)
                stream.unsent.append(fragment)
                stream.end += 1
        return operation

    def wait(self, seconds=10):
        self.wait_until(self.idle, seconds, "the end of all operations")

    def idle(self):
        return all(operation.done for operation in self.operations)

    def leave(self):
        self.straight_leave_at = time.monotonic() + self.lease / 2
        self.enter(LEAVING)
        self.wait_until(lambda: self.state == ENDED, self.lease, "the answer to LEAVE")
        self.udp.close()

    def wait_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise ProtocolError(
                    f"{what} did not come in {seconds} s; missing: {self.missing:#x}"
                )
            self.step()

    def step(self):
        select.select([self.udp], [], [], 0.002)
        try:
            for _ in range(WINDOW):
                self.take(*self.udp.recvfrom(65536), time.monotonic())
        except BlockingIOError:
            pass
        now = time.monotonic()
        if now >= self.announce_at:
            self.announce(now)
        for stream in reversed(self.streams):  # the express stream first
            if now >= stream.timer:
                self.fire(stream, now)
            self.send_new(stream, now)

    def take(self, data, source, now):
        size = HEADER.size + 8 * self.words
        if len(data) < size or source not in (self.parent, self.server):
            return
        packet, body = Header(*HEADER.unpack_from(data)), data[size:]
        mine = packet.version, packet.words, packet[4:6], packet.tag, packet.zero
        addressed = ranks_in(data[HEADER.size : size]) >> self.rank & 1
        if mine != (2, self.words, self.ids, 0, 0) or packet.flags > ALL_FLAGS or not addressed:
            return
        path = STRAIGHT if source != self.parent or packet.flags & DIRECT else TREE
        stream = next((s for s in self.streams if s.number == packet.stream), None)
        fragment = stream and stream.outstanding.get(packet.sequence)
        if packet.type == Type.PARAMETER and fragment:
            self.take_parameter(packet, body, fragment, now)
        elif packet.type == Type.NACK and stream:
            self.take_nack(packet, stream, fragment, now)
        elif packet.type == Type.JOIN_ACK and len(body) == JOIN_ACK.size:
            self.take_join_ack(body, path, now)
        elif packet.type == Type.STATUS:
            self.take_status(packet, body, path, fragment, now)

    def send(self, type_, path, body, flags=0, fields=None):
        fields = fields or (self.shape[1], 0, 0, 0, 0, 0, 0)  # from stream to kind
        flags |= DIRECT if path == STRAIGHT else 0
        header = HEADER.pack(2, type_, flags, self.words, *self.ids, *fields, 16, 0, 0)
        address = self.server if path == STRAIGHT else self.parent
        self.udp.sendto(header + self.bitmap + body, address)

    # Joining and leaving: §2.

    def enter(self, state):
        self.state, self.pause = state, 0.05
        self.announced_at, self.announce_at = 0.0, NEVER if state == ENDED else 0.0

    def announce(self, now):  # JOIN, rule 2, with one clock for both paths; LEAVE, rules 1 and 2
        self.announced_at, self.announce_at = now, now + self.pause
        self.pause = min(1.0, 2 * self.pause)
        for path in (TREE, STRAIGHT):
            if self.state != LEAVING:
                self.send(Type.JOIN, path, self.join_body(path))
            elif path == self.path or path == STRAIGHT and now > self.straight_leave_at:
                self.send(Type.LEAVE, path, struct.pack(">Q", self.nonce).ljust(272, b"\0"))

    def join_body(self, path):
        route = self.route if path == TREE else [self.server]
        agreed = 2, 2, self.path, self.number_format, self.detachments
        body = JOIN.pack(self.nonce, self.boot_id, *self.shape, self.k, *agreed, len(route), 0, 0)
        for host, port in route:
            body += bytes(10) + b"\xff\xff" + socket.inet_aton(host) + struct.pack(">H", port)
        return body.ljust(416, b"\0")

    def take_join_ack(self, body, path, now):
        nonce, boot_id, _, detachments, lease, wmax, k, *shape, mark, number_format, linear = (
            JOIN_ACK.unpack(body)
        )
        if (nonce, tuple(shape)) != (self.nonce, self.shape) or k > self.k or self.state >= LEAVING:
            return None  # JOIN_ACK, rule 4
        if self.boot_id not in (0, boot_id):
            raise ProtocolError("the server restarted")  # Lost tables, rule 5
        current = (detachments, mark) == (self.detachments, self.path)
        if current and path == self.path:
            self.announce_at, self.pause = now + 1, 1.0  # JOIN_ACK, rule 5
            if self.state == JOINING:  # rules 3 and 8
                self.state, self.boot_id, self.lease = MEMBER, boot_id, lease / 1000
                self.k, self.number_format, self.wmax, self.linear = k, number_format, wmax, linear
                first, count = self.shape[1:]
                self.streams = [self.new_stream(first + i) for i in range(count)]
        if path == TREE and self.all_again:  # Lost tables, rule 2
            self.send_all_again(now)
        return current

    def take_status(self, packet, body, path, fragment, now):  # §3.2
        if body == struct.pack(">H", UNKNOWN_JOB):  # Lost tables, rule 2
            if self.state == MEMBER and now > self.announced_at + 0.01:
                self.all_again = True
                self.enter(MEMBER)
            return
        if len(body) < STATUS.size + 16 * self.words:
            return
        code, reason, _, _, nonce = STATUS.unpack_from(body)
        if nonce not in (0, self.nonce):  # rule 4
            return
        about = ranks_in(body[STATUS.size : STATUS.size + 8 * self.words])
        if code == WAITING:
            self.missing = about
        elif code == LEFT and nonce and self.state == LEAVING:
            self.enter(ENDED)
        elif code in (TAKEN, REFUSED, RESTARTED) and nonce:
            self.take_refusal(code, reason, path, now)
        elif code == LEASE_ENDED or code == LEFT and (nonce or not self.idle()):
            raise ProtocolError(f"status {code} about the ranks {about:#x}")
        elif code == MISMATCH and fragment:  # Packets from above, rule 8
            theirs, mine = packet.operation, fragment.operation.fingerprint
            who = f"ranks {about:#x} are at {theirs:#x}, this one at {mine:#x}"
            raise ProtocolError(f"operation mismatch: {who}")

    def take_refusal(self, code, reason, path, now):  # Refusals, rule 2; No room, rule 2
        if self.state != JOINING or reason not in NO_ROOM:
            raise ProtocolError(f"status {code}, reason {reason}")

    # Fragments: §5.

    def new_stream(self, number):
        return SimpleNamespace(
            number=number, values=0, end=0, unsent=deque(), outstanding={}, indexes={},
            newest=-1, resend_up_to=-1, timer=NEVER, backoff=0,
        )  # fmt: skip

    def index(self, stream, sequence):
        slot = sequence % self.wmax
        if slot in stream.indexes:
            return stream.indexes[slot]
        if self.linear:
            return -(-((stream.number * self.wmax + slot) % self.linear << 32) // self.linear)
        return fmix32(fmix32(fmix32(self.ids[0]) ^ self.ids[1]) ^ (stream.number * 65536 + slot))

    def send_new(self, stream, now):  # Order; Congestion, rules 1, 7; Packets from above, 5
        while stream.unsent:
            fragment = stream.unsent[0]
            in_flight = sum(len(s.outstanding) for s in self.streams)
            oldest = next(iter(stream.outstanding), fragment.sequence)
            full = stream.outstanding and in_flight >= WINDOW
            too_far = fragment.sequence >= oldest + self.wmax
            if full or too_far or not fragment.part.ready(fragment.end):
                return
            stream.outstanding[fragment.sequence] = stream.unsent.popleft()
            fragment.kind, fragment.values = fragment.part.encode(fragment.start, fragment.end)
            exact, late = fragment.kind == EXACT, fragment.sequence <= stream.resend_up_to
            flags = FLOAT | DIRECT if exact else RESEND if late else 0
            self.transmit(fragment, flags, STRAIGHT if exact else TREE, now)
            if stream.timer == NEVER:
                self.restart_timer(stream, now)

    def transmit(self, fragment, flags, path, now):
        """A packet with DIRECT may still go through the tree."""
        stream, sequence = fragment.stream, fragment.sequence
        fragment.path, fragment.sent_at = path or self.path, now
        identity = sequence, self.index(stream, sequence), fragment.operation.fingerprint
        fields = stream.number, fragment.end - fragment.start, *identity, 0, fragment.kind
        self.send(Type.GRADIENT, fragment.path, fragment.values, flags, fields)

    def take_parameter(self, packet, body, fragment, now):
        count, floats = fragment.end - fragment.start, FLOAT if fragment.kind == EXACT else 0
        expected = fragment.operation.fingerprint, fragment.kind, count, floats
        found = packet.operation, packet.kind, packet.count, packet.flags & FLOAT
        if found != expected or len(body) != len(fragment.values):
            return  # Packets from above, rule 2
        stream = fragment.stream
        del stream.outstanding[packet.sequence]
        stream.indexes[packet.sequence % self.wmax] = packet.next_index
        stream.newest = max(stream.newest, packet.sequence)
        fragment.part.decode(fragment.start, fragment.end, packet.kind, body)
        self.repeat_lost(stream, now)
        stream.backoff = 0
        self.restart_timer(stream, now)

    def take_nack(self, packet, stream, fragment, now):  # Packets from above, rules 3 to 5
        next_ = stream.unsent[0].sequence if stream.unsent else stream.end
        if fragment and packet.operation in (0, fragment.operation.fingerprint):
            self.repeat(fragment, now, packet.flags & DIRECT)
        elif next_ <= packet.sequence < next_ + self.wmax:
            stream.resend_up_to = max(stream.resend_up_to, packet.sequence)

    # Loss: §5.

    def restart_timer(self, stream, now):  # rules 5 and 6
        time_out = min(1.0, TIME_OUT * 2**stream.backoff) * (1 + random.random() / 8)
        stream.timer = now + time_out if stream.outstanding else NEVER

    def fire(self, stream, now):
        stream.backoff += 1
        self.restart_timer(stream, now)
        self.repeat(next(iter(stream.outstanding.values())), now)

    def repeat(self, fragment, now, direct=False):  # rule 10
        fragment.repeats, fragment.again = fragment.repeats + 1, False
        floats = fragment.kind == EXACT
        if fragment.repeats < 3 and not direct and not floats:
            self.transmit(fragment, RESEND if fragment.repeats == 2 else 0, TREE, now)
        else:
            self.transmit(fragment, DIRECT | (FLOAT if floats else RESEND), not fragment.path, now)

    def repeat_lost(self, stream, now):
        """Two: of those overtaken, rules 1 to 3, and those that are to go again."""
        last, long_ago = stream.newest - 3, now - TIME_OUT
        lost = [
            fragment for fragment in stream.outstanding.values() if fragment.again
            or fragment.sequence <= last and fragment.sent_at < long_ago and not fragment.repeats
        ]  # fmt: skip
        for fragment in lost[:2]:
            self.repeat(fragment, now)

    def send_all_again(self, now):  # Lost tables, rule 2; Detaching, rules 7 and 9
        self.all_again = False
        for stream in self.streams:
            for fragment in stream.outstanding.values():
                fragment.repeats, fragment.again = 0, True
            self.repeat_lost(stream, now)
