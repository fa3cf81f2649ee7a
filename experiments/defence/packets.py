"""Packets as docs/inside/protocol describes them (§3), and their tags (§2, *Keys*)."""

import hashlib
import socket
import struct

from tests.independent_worker.siphash import siphash_2_4_128

TYPES = ("GRADIENT", "PARAMETER", "FLUSH", "NACK", "JOIN", "JOIN_ACK", "LEAVE", "STATUS")
GRADIENT, PARAMETER, FLUSH, NACK, JOIN, JOIN_ACK, LEAVE, STATUS = range(8)
CODES = (
    "waiting for", "mismatch", "rank taken", "unknown job", "versions", "refused", "lease ended",
    "detached", "server restarted", "left", "are you there", "here", "operation", "prove",
)  # fmt: skip
UNKNOWN_JOB, REFUSED, LEASE_ENDED, LEFT, ARE_YOU_THERE, HERE, PROVE = 3, 5, 6, 9, 10, 11, 13
DIRECT, FLOAT = 2, 32
HEADER = struct.Struct(">BBBBIIHHQIIIBBBB")  # §3
JOIN_BODY = struct.Struct(">QQHHHHBBBBIBBHQ")  # §3.1
JOIN_ACK_BODY = struct.Struct(">QQdIIIHHHHBBH")
JOIN_BYTES, LEAVE_BYTES = 416, 272
BLOCKS = 1
HOPS = 16
TAG_WORDS = 3


def header(type_, job, *, incarnation=1, flags=0, ranks=1, count=0, sequence=0, version=2, stream=0,
           operation=1, hops=HOPS):  # fmt: skip
    words = HEADER.pack(version, type_, flags, 1, job, incarnation, stream, count, sequence, 0,
                        operation, 0, BLOCKS << 4, hops, 0, 0)  # fmt: skip
    return words + struct.pack(">Q", ranks)


def endpoint(address):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address[0]) + struct.pack(">H", address[1])


def join(job, nonce, route, *, recorded=(), world_size=1, streams=1, values=350, boot=0, **fields):
    detached = int(fields.get("flags", 0) & DIRECT != 0)
    body = JOIN_BODY.pack(
        nonce, boot, world_size, 0, streams, values, 2, 2, detached, BLOCKS, detached,
        len(route), len(recorded), 0, fields.pop("proof", 0),
    )  # fmt: skip
    body += b"".join(endpoint(one) for one in (*route, *recorded))
    return header(JOIN, job, **fields) + body.ljust(JOIN_BYTES, b"\0")


def join_ack(job, nonce, *, world_size, values, streams=2, **fields):
    body = (nonce, 1, 1.0, 0, 5000, 256, values, world_size, 0, streams, 0, BLOCKS, 0)
    return header(JOIN_ACK, job, **fields) + JOIN_ACK_BODY.pack(*body)


def leave(job, nonce, **fields):
    fields = {"flags": DIRECT, **fields}
    return header(LEAVE, job, **fields) + struct.pack(">Q", nonce).ljust(LEAVE_BYTES, b"\0")


def gradient(job, sequence=0, flags=0, values=1, **fields):
    fields = {"flags": flags, "count": values, "sequence": sequence, **fields}
    return header(GRADIENT, job, **fields) + bytes(4 * values)


def parameter(job, values, **fields):
    return header(PARAMETER, job, count=values, **fields) + bytes(4 * values)


def status(job, code, *, reason=0, nonce=0, about=0, numbers=(), text=b"", **fields):
    """§3.2. *Refused* has two numbers, *detached* one per rank of `about`."""
    head = header(STATUS, job, **{"operation": 0, **fields})
    if code == UNKNOWN_JOB:
        return head + struct.pack(">H", code)
    body = struct.pack(">HHHHQQQ", code, reason, 0, len(text), nonce, about, 0)
    return head + body + b"".join(struct.pack(">I", number) for number in numbers) + text


def name_of(packet):
    """What a packet is: "JOIN", "STATUS waiting for" …"""
    words = TYPES[packet[1]]
    if packet[1] == STATUS:
        code = int.from_bytes(packet[40 + 8 * packet[3] :][:2])
        return f"{words} {CODES[code]}"
    return words


def with_proof(packet, proof):
    """The JOIN with another proof, and without its tag."""
    at = 40 + 8 * packet[3] + 36
    end = 40 + 8 * packet[3] + JOIN_BYTES
    return packet[:38] + b"\0" + packet[39:at] + struct.pack(">Q", proof) + packet[at + 8 : end]


def is_prove(packet):
    return packet[1] == STATUS and name_of(packet) == "STATUS prove"


def proof_in(packet):
    """What a STATUS *prove* says."""
    return struct.unpack_from(">Q", packet, 40 + 24 * packet[3] + 16)[0]


class Key:
    """A tenant's line in a file of keys."""

    def __init__(self, line):
        name, secret = line.split()[:2]
        self.number = hashlib.blake2b(name.encode(), digest_size=16).digest()[:4]
        self.secret = bytes.fromhex(secret)

    def tag(self, packet, source=None):
        """The packet with its tag; a JOIN's depends on the address that it comes from."""
        packet = packet[:38] + bytes([TAG_WORDS]) + packet[39:] + self.number
        hashed = packet + (endpoint(source) if packet[1] == JOIN else b"")
        job_key = hashlib.blake2b(b"atp job key" + packet[4:8], digest_size=16, key=self.secret)
        return packet + siphash_2_4_128(job_key.digest(), hashed)[:8]
