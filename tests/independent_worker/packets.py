"""The format of packets: docs/inside/protocol §3."""

import struct
from collections import namedtuple
from enum import IntEnum

import numpy as np

Type = IntEnum("Type", "GRADIENT PARAMETER FLUSH NACK JOIN JOIN_ACK LEAVE STATUS", start=0)
RESEND, DIRECT, FLOAT, ALL_FLAGS = 1, 2, 32, 63
HEADER, STATUS = struct.Struct(">4B2I2HQ3I4B"), struct.Struct(">4HQ")  # §3, §3.2
JOIN, JOIN_ACK = struct.Struct(">2Q4H4BI2BHQ"), struct.Struct(">2Qd3I4H2BH")  # §3.1
FIELDS = "version type flags words job incarnation stream count sequence index operation"
Header = namedtuple("Header", f"{FIELDS} next_index_and_part kind hops tag zero")

# Codes of a STATUS, and reasons of a refusal: §3.2.
WAITING, MISMATCH, TAKEN, UNKNOWN_JOB, _, REFUSED, LEASE_ENDED, _, RESTARTED, LEFT = range(10)
PROVE = 13
VALUE_COUNT, NO_ROOM = 3, (7, 10, 12, 14, 15)

TREE, STRAIGHT = False, True  # paths
NEVER = float("inf")


class ProtocolError(Exception):
    """The job is over for this rank."""


def ranks_in(bitmap):  # as one number
    return int.from_bytes(np.frombuffer(bitmap, ">u8").astype("<u8").tobytes(), "little")
