"""How packets are laid out: docs/protocol.md §3. Written from that page alone."""

import socket
import struct
from dataclasses import dataclass
from enum import IntEnum

Type = IntEnum("Type", "GRADIENT PARAMETER FLUSH NACK JOIN JOIN_ACK LEAVE STATUS", start=0)
Code = IntEnum(
    "Code",
    "WAITING MISMATCH TAKEN UNKNOWN_JOB VERSIONS REFUSED LEASE_ENDED DETACHED RESTARTED LEFT",
    start=0,
)
RESEND, DIRECT, FLOAT = 1, 2, 32
HOPS = 16
HEADER = struct.Struct(">BBBBIIHHQIIIBBBB")
JOIN_BODY = struct.Struct(">QQHHHHBBBBIBBH")
JOIN_ACK_BODY = struct.Struct(">QQdIIIHHHHBBH")
JOIN_BYTES, LEAVE_BYTES = 416, 272  # padded, so that no answer is larger
STATUS_BODY = struct.Struct(">HHHHQ")


@dataclass
class Packet:
    type: int
    flags: int
    job: int
    incarnation: int
    stream: int
    value_count: int
    sequence: int
    index: int
    operation: int
    magnitude: int  # or the next index
    kind: int
    ranks: int  # the bitmap as one number
    body: bytes

    @staticmethod
    def parse(data, words):
        """None where a header's rule is broken: such a packet is dropped."""
        if len(data) < HEADER.size + 8 * words:
            return None
        version, type_, flags, bitmap_words, *fields, kind, _hops, tag, zero = HEADER.unpack_from(
            data
        )
        if (version, bitmap_words, tag, zero) != (2, words, 0, 0):
            return None
        ranks = bits_of(data[HEADER.size : HEADER.size + 8 * words])
        return Packet(type_, flags, *fields, kind, ranks, data[HEADER.size + 8 * words :])


def write_header(
    type_, flags, job, incarnation, stream, ranks, words,
    count=0, sequence=0, index=0, operation=0, kind=0,
):  # fmt: skip
    """With the bitmap. The magnitude is 0, since no sum here has the fixed scale."""
    header = HEADER.pack(
        2, type_, flags, words, job, incarnation, stream, count, sequence, index, operation, 0,
        kind, HOPS, 0, 0,
    )  # fmt: skip
    return header + words_of(ranks, words)


def words_of(ranks, words):
    return struct.pack(f">{words}Q", *((ranks >> 64 * w) & (2**64 - 1) for w in range(words)))


def bits_of(data):
    words = struct.unpack(f">{len(data) // 8}Q", data)
    return sum(word << 64 * place for place, word in enumerate(words))


def endpoint(address):
    return b"\0" * 10 + b"\xff\xff" + socket.inet_aton(address[0]) + struct.pack(">H", address[1])
