"""How a rank joins, stays a member and leaves: docs/inside/protocol §2, from that page alone."""

import os
import socket
import struct
from collections import namedtuple

import numpy as np

from .packets import (
    DIRECT,
    HEADER,
    JOIN,
    JOIN_ACK,
    LEASE_ENDED,
    LEFT,
    MISMATCH,
    NEVER,
    NO_ROOM,
    PROVE,
    REFUSED,
    RESTARTED,
    STATUS,
    STRAIGHT,
    TAKEN,
    TREE,
    UNKNOWN_JOB,
    WAITING,
    ProtocolError,
    Type,
    ranks_in,
)

JOINING, MEMBER, LEAVING, ENDED = range(4)  # states
Agreed = namedtuple("Agreed", "k number_format wmax linear")  # JOIN_ACK, rule 3


class Member:
    """A socket of a rank. `route` is a list of (IPv4 address, port): the switches upward, the
    server last. Subclasses have begin(), idle() and send_all_again()."""

    def __init__(self, job, incarnation, rank, world_size, route, streams, udp):
        self.ids, self.rank, self.shape = (job, incarnation), rank, (world_size, *streams)
        self.route, self.parent, self.server = route, route[0], route[-1]
        self.words = -(-world_size // 64)
        bitmap = (1 << rank).to_bytes(8 * self.words, "little")
        self.bitmap = np.frombuffer(bitmap, "<u8").astype(">u8").tobytes()
        self.udp = udp or socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.udp.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 2)  # ECT(0): §4, ECN
        self.udp.setblocking(False)
        self.nonce, self.boot_id, self.lease = int.from_bytes(os.urandom(8), "big"), 0, 5.0
        self.path, self.detachments, self.missing = TREE, 0, 0
        self.proofs, self.asked = [0, 0], [0, 0]  # by path: Proof, rule 3
        self.all_again = False  # when a JOIN is answered through the tree
        self.enter(JOINING)

    def send(self, type_, path, body, flags=0, fields=None):
        fields = fields or (self.shape[1], 0, 0, 0, 0, 0, 0)  # from stream to kind
        flags |= DIRECT if path == STRAIGHT else 0
        header = HEADER.pack(2, type_, flags, self.words, *self.ids, *fields, 16, 0, 0)
        address = self.server if path == STRAIGHT else self.parent
        self.udp.sendto(header + self.bitmap + body, address)

    def hear(self, path, now):
        """A packet has come by this path: for detaching.py."""

    def enter(self, state):  # JOIN, rule 2: the intervals begin anew
        self.state, self.pause = state, 0.05
        self.announced_at, self.announce_at = 0.0, NEVER if state == ENDED else 0.0
        self.asked = [0, 0]

    def announce(self, now):  # JOIN, rule 2, with one clock for both paths; LEAVE, rules 1, 2, 7
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
        body = JOIN.pack(self.nonce, self.boot_id, *self.shape, self.k, *agreed, len(route), 0, 0,
                         self.proofs[path])  # fmt: skip
        for host, port in route:
            body += bytes(10) + b"\xff\xff" + socket.inet_aton(host) + struct.pack(">H", port)
        return body.ljust(416, b"\0")

    def take_join_ack(self, body, path, now):
        """Whether it answers the present JOIN; None if it is dropped."""
        nonce, boot_id, _, detachments, lease, wmax, k, *shape, mark, number_format, linear = (
            JOIN_ACK.unpack(body)
        )
        if (nonce, tuple(shape)) != (self.nonce, self.shape) or k > self.k or self.state >= LEAVING:
            return None  # JOIN_ACK, rule 4; LEAVE, rule 7
        if self.boot_id not in (0, boot_id):
            raise ProtocolError("the server restarted")  # Lost tables, rule 5
        self.asked[path] = 0
        current = (detachments, mark) == (self.detachments, self.path)
        if current and path == self.path:
            self.announce_at, self.pause = now + 1, 0.05  # JOIN, rule 2; JOIN_ACK, rule 5
            if self.state == JOINING:  # JOIN_ACK, rules 3 and 8
                self.state, self.boot_id, self.lease = MEMBER, boot_id, lease / 1000
                self.begin(Agreed(k, number_format, wmax, linear))
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
        if self.state >= LEAVING:  # LEAVE, rules 1 and 7
            if code == LEFT and nonce:
                self.enter(ENDED)
        elif code == PROVE and nonce:
            self.take_prove(STATUS.size + 16 * self.words, body, path)
        elif code == WAITING:
            self.missing = about
        elif code in (TAKEN, REFUSED) and nonce:
            self.take_refusal(code, reason, path, now)
        elif code == RESTARTED and nonce:  # Lost tables, rule 5
            raise ProtocolError("the server restarted")
        elif code == LEASE_ENDED or code == LEFT and (nonce or not self.idle()):
            raise ProtocolError(f"status {code} about the ranks {about:#x}")
        elif code == MISMATCH and fragment:  # Packets from above, rule 8
            theirs, mine = packet.operation, fragment.operation.fingerprint
            who = f"ranks {about:#x} are at {theirs:#x}, this one at {mine:#x}"
            raise ProtocolError(f"operation mismatch: {who}")

    def take_prove(self, at, body, path):  # Proof, rule 3
        (proof,) = struct.unpack_from(">Q", body, at)
        for each in (TREE, STRAIGHT) if self.parent == self.server else (path,):
            self.proofs[each] = proof
        self.asked[path] += 1
        if self.asked[path] <= 9:
            self.send(Type.JOIN, path, self.join_body(path))

    def take_refusal(self, code, reason, path, now):  # Refusals, rule 2; No room, rule 2
        if self.state != JOINING or reason not in NO_ROOM:
            raise ProtocolError(f"status {code}, reason {reason}")
