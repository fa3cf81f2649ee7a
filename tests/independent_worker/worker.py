"""One rank of a job, written from docs/inside/protocol alone: nothing was taken from atp's sources.

It proves that the page is enough to write a worker, and keeps it so: what this worker needs to know
must be there. packets.py has the format (§3), membership.py how it joins and leaves (§2),
numbers.py what values travel as; this file has the rest of §5. That is all that a rank needs to
share a job through switches, with loss. several.py adds several servers, detaching.py the path
around a dead switch. Comments name the sections of the page.

It leaves out what only makes a worker faster, or reports more:

* JOIN: a clock for each path, keys, versions, ICMP. No room: when the waiting ends; join() ends it.
* *Server lost*, and so rule 3 of LEAVE.
* Loss: round trips (so what was overtaken waits for a time-out, and no NACK is early), probes, the
  timers of rules 3 and 4, rule 11. Congestion: a window that adapts. Blocks: rule 9.
* Operations: rule 6. Packets from above: rule 7, and rule 8 about what has not been sent yet.
"""

import random
import select
import time
from collections import deque
from types import SimpleNamespace

from .membership import ENDED, LEAVING, MEMBER, Member
from .numbers import EXACT, EXPONENTS, FORMAT_BLOCKS, Operation, fmix32
from .packets import (
    ALL_FLAGS,
    DIRECT,
    FLOAT,
    HEADER,
    JOIN_ACK,
    NEVER,
    RESEND,
    STRAIGHT,
    TREE,
    Header,
    ProtocolError,
    Type,
    ranks_in,
)

WINDOW, TIME_OUT = 64, 0.1  # packets; seconds: Loss, rule 6


class Worker(Member):
    def __init__(
        self, job, incarnation, rank, world_size, route, streams, values=350,
        number_format=FORMAT_BLOCKS, udp=None, first_stream=0,
    ):  # fmt: skip
        self.k, self.number_format = values, number_format
        self.streams, self.operations = [], []
        super().__init__(job, incarnation, rank, world_size, route, (first_stream, streams), udp)

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
                fragment = SimpleNamespace(**place, start=start, end=end)
                fragment.repeats, fragment.early, fragment.again = 0, False, False
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
        self.hear(path, now)
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

    # Fragments: §5.

    def begin(self, agreed):
        self.k, self.number_format, self.wmax, self.linear = agreed
        _, first, count = self.shape
        self.streams = [self.new_stream(first + i) for i in range(count)]

    def new_stream(self, number):
        return SimpleNamespace(
            number=number, values=0, end=0, unsent=deque(), outstanding={}, indexes={},
            newest={True: -1, False: -1}, resend_up_to=-1, timer=NEVER, backoff=0,
        )  # fmt: skip

    def index(self, stream, sequence):
        slot = sequence % self.wmax
        if slot in stream.indexes:
            return stream.indexes[slot]
        if self.linear:
            return -(-((stream.number * self.wmax + slot) % self.linear << 24) // self.linear) << 8
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
        stream.indexes[packet.sequence % self.wmax] = packet.next_index_and_part & 0xFFFFFF00
        for exact in (True, False):  # the highest answered: of all, and of those not exact
            if exact or fragment.kind != EXACT:
                stream.newest[exact] = max(stream.newest[exact], packet.sequence)
        fragment.part.decode(fragment.start, fragment.end, packet.kind, body)
        self.repeat_lost(stream, now)
        stream.backoff = 0
        self.restart_timer(stream, now)

    def take_nack(self, packet, stream, fragment, now):  # Packets from above, rules 3 to 5
        next_ = self.next_of(stream)
        if fragment and packet.operation in (0, fragment.operation.fingerprint):
            self.repeat(fragment, now, packet.flags & DIRECT)
        elif next_ <= packet.sequence < next_ + self.wmax:
            stream.resend_up_to = max(stream.resend_up_to, packet.sequence)

    # Loss: §5.

    def next_of(self, stream):
        return stream.unsent[0].sequence if stream.unsent else stream.end

    def restart_timer(self, stream, now):  # rules 5 and 6
        time_out = min(1.0, TIME_OUT * 2**stream.backoff) * (1 + random.random() / 8)
        stream.timer = now + time_out if stream.outstanding else NEVER

    def fire(self, stream, now):
        stream.backoff += 1
        self.restart_timer(stream, now)
        self.repeat(next(iter(stream.outstanding.values())), now)

    def repeat(self, fragment, now, direct=False):  # rule 10
        fragment.repeats = 3 if direct else fragment.repeats + 1
        fragment.again, floats = False, fragment.kind == EXACT
        if fragment.repeats < 3 and not floats:
            self.transmit(fragment, RESEND if fragment.repeats == 2 else 0, TREE, now)
        else:
            self.transmit(fragment, DIRECT | (FLOAT if floats else RESEND), not fragment.path, now)

    def overtaken(self, stream):  # rule 1
        fragments = stream.outstanding.values()
        oldest = next(iter(stream.outstanding), 0)
        if self.next_of(stream) - oldest - len(fragments) < 3:  # answered ones beyond the oldest
            return []
        return [
            fragment for fragment in fragments
            if fragment.sequence + 3 <= stream.newest[fragment.kind == EXACT] and not fragment.early
        ]  # fmt: skip

    def repeat_lost(self, stream, now):
        """Two: first of those that must go again, then of those overtaken (rules 1 to 3)."""
        again = [f for f in stream.outstanding.values() if f.again]
        late = [f for f in self.overtaken(stream) if not f.again and f.sent_at < now - TIME_OUT]
        for fragment in (again + late)[:2]:
            fragment.early |= not fragment.again
            self.repeat(fragment, now)

    def send_all_again(self, now):  # Lost tables, rule 2; Detaching, rules 7 and 9
        self.all_again = False
        for stream in self.streams:
            for fragment in stream.outstanding.values():
                fragment.repeats, fragment.again = 0, True
            self.repeat_lost(stream, now)
