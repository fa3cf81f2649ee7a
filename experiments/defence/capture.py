"""Keeps the atp packets that this host sends and receives; needs root in its network namespace.

    capture.py FILE     adds lines of JSON: [source, port, target, port, payload in hex]

Of each type, code and pair of hosts it keeps the first FEW and then one in fifty. A train of
datagrams is one packet here: its first datagram is kept.
"""

import json
import socket
import struct
import sys

from experiments.defence.packets import FLOAT, GRADIENT, PARAMETER, name_of

FEW = 40
PORTS = (5500, 5501)
EVERY_PACKET = 0x0003


def length_of(packet):
    """§3, *Length and K*: of a packet with values, the first datagram of its train."""
    values, kind = int.from_bytes(packet[14:16]), packet[36]
    bytes_of_a_value = 2 if kind >> 1 & 3 == 1 and not packet[2] & FLOAT else 4
    return 40 + 8 * packet[3] + bytes_of_a_value * values + 4 * packet[38]


def main(file):
    counts = {}
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(EVERY_PACKET)) as interface,
        open(file, "a", buffering=1) as out,
    ):
        print("capturing", flush=True)
        while True:
            packet = interface.recv(65536)
            if packet[0] != 0x45 or packet[9] != socket.IPPROTO_UDP:
                continue
            source, target = socket.inet_ntoa(packet[12:16]), socket.inet_ntoa(packet[16:20])
            ports = struct.unpack(">HH", packet[20:24])
            payload = packet[28:]
            if not set(ports) & set(PORTS) or len(payload) < 50:
                continue
            try:
                name = name_of(payload)
            except IndexError:
                continue
            if payload[1] in (GRADIENT, PARAMETER):
                payload = payload[: length_of(payload)]
            key = (name, source, target)
            counts[key] = counts.get(key, 0) + 1
            if counts[key] > FEW and counts[key] % 50:
                continue
            out.write(json.dumps([source, ports[0], target, ports[1], payload.hex()]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
