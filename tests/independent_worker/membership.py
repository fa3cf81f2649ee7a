"""Joining, staying, detaching and leaving: docs/protocol.md §2 and §5. From that page alone."""

import os
import struct
import time

from .stream import Repeated, Stream
from .wire import (
    DIRECT,
    JOIN_ACK_BODY,
    JOIN_BODY,
    JOIN_BYTES,
    LEAVE_BYTES,
    STATUS_BODY,
    Code,
    Type,
    bits_of,
    endpoint,
    write_header,
)

NO_ROOM = (7, 10)  # reasons


class ProtocolError(Exception):
    """The job is over for this rank; the message is that of the server or the switch."""


class Membership:
    """The part of a Worker that keeps it in its job."""

    def start_membership(self):
        self.nonce = int.from_bytes(os.urandom(8), "big")
        self.boot_id = 0
        self.attached, self.detachments, self.direct_repeats = True, 0, 0
        self.heard_tree = time.monotonic()
        self.probe_pause, self.attach_after = 0.0, 0.0
        self.join_tree, self.join_straight, self.leave_timer = Repeated(), Repeated(), Repeated()
        self.send_all_again = False  # when a JOIN is answered through the tree
        self.left, self.leaving_since = False, None
        self.waiting_for = 0

    def _send(self, type_, straight, flags=0, body=b"", stream=None, **fields):
        header = write_header(
            type_, flags | (DIRECT if straight else 0), self.job, self.incarnation,
            self.first_stream if stream is None else stream, 1 << self.rank, self.words, **fields,
        )  # fmt: skip
        try:
            self.udp.sendto(header + body, self.server if straight else self.parent)
        except ConnectionRefusedError:
            pass  # what an earlier packet met; the timers repeat what was lost

    def _join(self, straight):
        route = [self.server] if straight else self.route
        body = JOIN_BODY.pack(
            self.nonce, self.boot_id, self.world_size, self.first_stream, self.stream_count,
            self.values, 2, 2, not self.attached, self.number_format, self.detachments,
            len(route), 0, 0,
        )  # fmt: skip
        body += b"".join(endpoint(a) for a in route)
        self._send(Type.JOIN, straight, body=body.ljust(JOIN_BYTES, b"\0"))

    def _membership(self, now):
        if self.left:
            return
        if self.leaving_since is not None:
            if self.leave_timer.is_due(now):
                body = struct.pack(">Q", self.nonce).ljust(LEAVE_BYTES, b"\0")
                self._send(Type.LEAVE, straight=not self.attached, body=body)
                if self.attached and now - self.leaving_since > 2.5:
                    self._send(Type.LEAVE, straight=True, body=body)
            return
        if self.join_tree.is_due(now):
            self._join(straight=False)
        if self.join_straight.is_due(now):
            self._join(straight=True)
        if self.attached and len(self.route) > 1 and now - self.heard_tree > 5:
            self._detach(now)

    def _join_ack(self, packet, through_tree, now):
        (nonce, boot_id, _scale, detachments, _lease, wmax, k, world_size, first, count, mark,
         number_format, linear) = JOIN_ACK_BODY.unpack(packet.body)  # fmt: skip
        if nonce != self.nonce:
            return
        if self.boot_id not in (0, boot_id):
            raise ProtocolError("the server restarted")
        self.heard_tree = now if through_tree else self.heard_tree
        current = (detachments, bool(mark)) == (self.detachments, not self.attached)
        if current:
            (self.join_tree if through_tree else self.join_straight).answered(now)
        self.waiting_for = 0
        if not self.streams and (through_tree or not self.attached):
            self.boot_id, self.k, self.number_format = boot_id, k, number_format
            self.streams = [
                Stream(first + i, self.job, self.incarnation, wmax, linear) for i in range(count)
            ]
        if through_tree and not self.attached and current and now >= self.attach_after:
            self.attached, self.direct_repeats = True, 0
            self.join_tree.again()
            self.join_straight.again()
            self._everything_again(now)
        elif through_tree and self.send_all_again:
            self._everything_again(now)

    def _may_detach(self, code, reason):
        """There is a path around the switch, and the job itself is not in doubt."""
        full = code == Code.REFUSED and reason in NO_ROOM
        return len(self.route) > 1 and (self.streams or not self.attached or full)

    def _detach(self, now):
        if not self.attached:
            return
        self.attached, self.direct_repeats = False, 0
        self.detachments += 1
        self.attach_after = now + self.probe_pause
        self.probe_pause = min(60, 2 * self.probe_pause or 0.25)
        self.join_tree.again()
        self.join_straight.again()
        self._everything_again(now)

    def _everything_again(self, now):
        """On a new path: two fragments of each stream, and two more for each answer."""
        self.send_all_again = False
        for stream in self.streams:
            stream.to_follow = list(stream.outstanding.values())
            stream.follow_all = True
            for fragment in stream.to_follow:
                fragment.repeats = 0  # the ladder begins anew
            self._follow_up(stream, now)

    def _status(self, packet, through_tree, now):
        if packet.body == struct.pack(">H", Code.UNKNOWN_JOB):
            if self.streams:
                self.send_all_again = True
                self.join_tree.again()
                self.join_straight.again()
            return
        if len(packet.body) < STATUS_BODY.size + 16 * self.words:
            return
        code, reason, _endpoints, _, nonce = STATUS_BODY.unpack_from(packet.body)
        if nonce not in (0, self.nonce):
            return  # the answer to a twin behind the same switch
        at = STATUS_BODY.size
        about = bits_of(packet.body[at : at + 8 * self.words])
        mine = about >> self.rank & 1
        if code == Code.WAITING:
            self.heard_tree = now if through_tree else self.heard_tree
            self.waiting_for = about
            self.direct_repeats = max(0, self.direct_repeats - 1)
        elif code == Code.LEFT and mine and nonce == self.nonce:
            if self.leaving_since is None:
                raise ProtocolError(f"rank {self.rank} has left the job before")
            self.left = True
        elif code in (Code.TAKEN, Code.REFUSED) and through_tree and self._may_detach(code, reason):
            self._detach(now)
        elif code == Code.REFUSED and reason in NO_ROOM and not self.streams:
            pass  # there may be room in a while, so it asks on
        elif code in (Code.TAKEN, Code.REFUSED, Code.RESTARTED):
            numbers = struct.unpack(">2I", packet.body[-8:]) if code == Code.REFUSED else ()
            raise ProtocolError(f"status {code}, reason {reason}, {numbers}")
        elif code in (Code.LEASE_ENDED, Code.LEFT) and not all(o.done for o in self.operations):
            raise ProtocolError(f"status {code} about the ranks {about:#x}")
        elif code == Code.MISMATCH:
            for stream in self.streams:
                fragment = stream.outstanding.get(packet.sequence)
                if stream.number == packet.stream and fragment:
                    raise ProtocolError(
                        f"operation mismatch: ranks {about:#x} are at {packet.operation:#x}, "
                        f"this one at {fragment.operation.fingerprint:#x}"
                    )
