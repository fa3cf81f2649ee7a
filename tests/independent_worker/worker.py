"""One rank of a job, written from docs/protocol.md alone: nothing was taken from atp's sources.

It proves that the page is enough to write a worker, and keeps it so: what this file needs to know
must stand there. It favours plainness over speed, so its window is fixed (the policy *none*).
"""

import select
import socket
import time

from .membership import Membership, ProtocolError
from .numbers import EXACT, EXPONENTS, FORMAT_BLOCKS, Operation
from .stream import Fragment, RoundTrip
from .wire import DIRECT, FLOAT, JOIN_ACK_BODY, RESEND, Packet, Type

WINDOW = 64  # packets


class Worker(Membership):
    """`route` is a list of (IPv4 address, port): the switches upward, the server last."""

    def __init__(
        self, job, incarnation, rank, world_size, route, streams, values=350,
        number_format=FORMAT_BLOCKS, udp=None, first_stream=0,
    ):  # fmt: skip
        self.job, self.incarnation, self.rank, self.world_size = job, incarnation, rank, world_size
        self.route, self.parent, self.server = route, route[0], route[-1]
        self.words = -(-world_size // 64)
        self.first_stream, self.stream_count = first_stream, streams
        self.values, self.number_format = values, number_format
        self.udp = udp or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)  # ECT(0)
        self.start_membership()
        self.streams, self.operations = [], []
        self.k = 0
        self.round_trip = RoundTrip()
        self.repeats_sent = 0

    # What a user of this worker calls.

    def join(self, seconds=10):
        self.wait_until(lambda: self.streams, seconds, "the job to begin")

    def submit(self, values, reduction="sum", segments=(), tag=0, whole=None):
        """`whole` is the length of the operation of which this is a part for one server."""
        operation = Operation(
            len(self.operations), values, reduction, self.world_size, self.number_format,
            list(segments), tag, whole,
        )  # fmt: skip
        self.operations.append(operation)
        express = self.streams[-1]
        for part in operation.parts:
            stream = express
            if not operation.small and part.kind != EXPONENTS:
                stream = min(self.streams[:-1], key=lambda s: (s.values, s.number))
                stream.values += part.length
            size = self.k * part.per_word
            for start in range(0, part.length, size):
                end = min(part.length, start + size)
                stream.unsent[stream.end] = Fragment(stream.end, operation, part, start, end)
                stream.end += 1
                operation.missing += 1
        return operation

    def wait(self, seconds=10):
        """Waits for everything that was submitted."""
        self.wait_until(
            lambda: all(o.done for o in self.operations), seconds, "all operations to end"
        )

    def leave(self, seconds=6):
        self.leaving_since = time.monotonic()
        self.wait_until(lambda: self.left, seconds, "the server to acknowledge LEAVE")
        self.udp.close()

    def wait_until(self, condition, seconds, what):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                missing = [r for r in range(self.world_size) if self.waiting_for >> r & 1]
                raise ProtocolError(
                    f"rank {self.rank}: waited {seconds} s in vain for {what}; missing: {missing}"
                )
            self._step()

    # The loop: packets, timers, first transmissions.

    def _step(self):
        readable, _, _ = select.select([self.udp], [], [], 0.002)
        while readable:
            try:
                data, source = self.udp.recvfrom(65536, socket.MSG_DONTWAIT)
            except (BlockingIOError, ConnectionRefusedError):
                break
            packet = Packet.parse(data, self.words)
            if packet is not None and source in (self.parent, self.server):
                self._take(packet, source, time.monotonic())
        now = time.monotonic()
        self._membership(now)
        for stream in self.streams:
            if stream.follow_at is not None and now >= stream.follow_at:
                stream.follow_at, stream.follow_all = None, False
                stream.to_follow = stream.after_timer
                self._follow_up(stream, now)
            if stream.deadline is not None and now >= stream.deadline:
                self._timer(stream, now)
        for stream in [*self.streams[-1:], *self.streams[:-1]]:
            self._send_new(stream, now)

    def _take(self, packet, source, now):
        if (packet.job, packet.incarnation) != (self.job, self.incarnation):
            return
        if not packet.ranks >> self.rank & 1:
            return
        through_tree = source == self.parent and not packet.flags & DIRECT
        if packet.type == Type.PARAMETER:
            self._parameter(packet, now)
        elif packet.type == Type.NACK:
            self._nack(packet, now)
        elif packet.type == Type.JOIN_ACK and len(packet.body) == JOIN_ACK_BODY.size:
            self._join_ack(packet, through_tree, now)
        elif packet.type == Type.STATUS:
            self._status(packet, through_tree, now)

    # Fragments.

    def _transmit(self, stream, fragment, flags, now, past_switches=False):
        """A packet with DIRECT may still go through the tree."""
        straight = past_switches or not self.attached
        fragment.went_straight = straight
        fragment.sent_at = now
        self._send(
            Type.GRADIENT, straight, flags, fragment.payload, stream=stream.number,
            count=fragment.end - fragment.start, sequence=fragment.sequence,
            index=stream.index(fragment.sequence), operation=fragment.operation.fingerprint,
            kind=fragment.kind,
        )  # fmt: skip

    def _send_new(self, stream, now):
        while stream.unsent:
            in_flight = sum(len(s.outstanding) for s in self.streams)
            if stream.outstanding and in_flight >= WINDOW:
                return
            fragment = stream.unsent[stream.next]
            if stream.next >= stream.lowest_unanswered() + stream.wmax:
                return
            if not fragment.part.ready(fragment.end):
                return
            del stream.unsent[stream.next]
            stream.next += 1
            fragment.kind, fragment.payload = fragment.part.encode(fragment.start, fragment.end)
            fragment.sampled = fragment.operation.answered
            stream.outstanding[fragment.sequence] = fragment
            if fragment.kind == EXACT:
                self._transmit(stream, fragment, FLOAT | DIRECT, now, past_switches=True)
            else:
                flags = RESEND if fragment.sequence <= stream.resend_up_to else 0
                self._transmit(stream, fragment, flags, now)
            if stream.deadline is None:
                stream.deadline = now + self.round_trip.time_out(0)

    def _repeat(self, stream, fragment, now, by_timer=False, direct=False):
        """The ladder: plain, RESEND, then with DIRECT, in turn straight and through the tree."""
        fragment.repeats += 1
        self.repeats_sent += 1
        exact = fragment.kind == EXACT
        if fragment.repeats < 3 and not direct and not exact:
            self._transmit(stream, fragment, RESEND if fragment.repeats == 2 else 0, now)
            return
        flags = DIRECT | (FLOAT if exact else RESEND)
        self._transmit(stream, fragment, flags, now, not fragment.went_straight)
        if by_timer and not exact and self.attached and len(self.route) > 1:
            fragment.direct_by_timer = True
            self.direct_repeats += 1
            if self.direct_repeats >= 3:
                self._detach(now)

    def _timer(self, stream, now):
        fragment = stream.oldest()
        if fragment is None:
            stream.deadline = None
            return
        stream.after_timer = [f for f in stream.outstanding.values() if f is not fragment]
        fragment.timer_fired = True
        stream.backoff += 1
        stream.deadline = now + self.round_trip.time_out(stream.backoff)
        self._repeat(stream, fragment, now, by_timer=True)

    def _follow_up(self, stream, now):
        for _ in range(2):
            while stream.to_follow and stream.to_follow[0].sequence not in stream.outstanding:
                stream.to_follow.pop(0)
            if stream.to_follow:
                self._repeat(stream, stream.to_follow.pop(0), now)

    def _after_answer(self, stream, fragment, now):
        """After a timer's repeat: what is behind it follows, if the timer was not early."""
        if not fragment.repeats:
            stream.follow_at = None
            if not stream.follow_all:
                stream.to_follow = []
        elif fragment.timer_fired and not stream.to_follow and stream.follow_at is None:
            stream.follow_at = now + self.round_trip.tolerance()
        self._follow_up(stream, now)

    def _hurry(self, stream, now):
        """Fragments three or more before the newest answered one are lost: once, two per answer."""
        budget = 2
        for fragment in list(stream.outstanding.values()):
            if fragment.sequence > stream.newest_answered - 3 or budget == 0:
                break
            late = now - fragment.sent_at > self.round_trip.tolerance()
            if late and not fragment.hurried:
                fragment.hurried = True
                budget -= 1
                self._repeat(stream, fragment, now)
        oldest = stream.oldest()
        if oldest and oldest.hurried and now - oldest.sent_at > self.round_trip.time_out(0):
            self._repeat(stream, oldest, now)

    def _parameter(self, packet, now):
        stream = next((s for s in self.streams if s.number == packet.stream), None)
        fragment = stream and stream.outstanding.get(packet.sequence)
        if not fragment or packet.operation != fragment.operation.fingerprint:
            return
        size = 2 if fragment.part.per_word == 2 else 4
        count = fragment.end - fragment.start
        if (packet.kind, packet.value_count) != (fragment.kind, count):
            return
        if len(packet.body) != size * count:
            return
        del stream.outstanding[packet.sequence]
        stream.next_index[packet.sequence % stream.wmax] = packet.magnitude
        stream.newest_answered = max(stream.newest_answered, packet.sequence)
        fragment.part.decode(fragment.start, fragment.end, packet.kind, packet.body)
        fragment.operation.missing -= 1
        fragment.operation.answered = True
        if packet.kind == EXPONENTS:
            self._agree(fragment)
        if not fragment.repeats and fragment.sampled:
            self.round_trip.sample(now - fragment.sent_at)
        if not fragment.direct_by_timer:
            self.direct_repeats = 0
        stream.backoff = 0
        self._after_answer(stream, fragment, now)
        waiting = bool(stream.outstanding)
        stream.deadline = now + self.round_trip.time_out(0) if waiting else None
        self._hurry(stream, now)

    def _agree(self, fragment):
        """Counts the blocks, from the first one on, whose exponents are known."""
        exponents, blocks = fragment.operation.parts
        open_ = [f.start for f in self.streams[-1].outstanding.values() if f.part is exponents] + [
            f.start for f in self.streams[-1].unsent.values() if f.part is exponents
        ]
        blocks.agreed = min(open_, default=exponents.length)

    def _nack(self, packet, now):
        stream = next((s for s in self.streams if s.number == packet.stream), None)
        if stream is None:
            return
        fragment = stream.outstanding.get(packet.sequence)
        if fragment and packet.operation in (0, fragment.operation.fingerprint):
            self._repeat(stream, fragment, now, direct=bool(packet.flags & DIRECT))
        elif stream.next <= packet.sequence < stream.next + stream.wmax:
            stream.resend_up_to = max(stream.resend_up_to, packet.sequence)
