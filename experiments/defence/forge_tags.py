"""Forges packets of a job that has a key; needs root in its network namespace.

    forge_tags.py listen FILE
        keeps the last GRADIENT that this host sends in FILE, with its IP and UDP headers
    forge_tags.py send FILE COUNT PER_SECOND SIZE
        sends COUNT copies of the datagram in FILE, of SIZE bytes, with other values and random tags

So every field is right but the tag: the addresses, the job and its incarnation, the rank, the
sequence and the operation, and the number of the key.
"""

import os
import pathlib
import random
import socket
import sys
import time

IP, UDP, TYPE, TAG_WORDS = 20, 8, 1, 38
GRADIENT = 0
TAG = 8  # the last bytes, after the number of the key


def is_tagged_gradient(packet):
    payload = packet[IP + UDP :]
    is_udp = packet[0] == 0x45 and packet[9] == socket.IPPROTO_UDP
    return is_udp and len(payload) > 500 and payload[TYPE] == GRADIENT and payload[TAG_WORDS] == 3


def listen(file):
    """A train is one packet here; what is sent is its first datagram."""
    every_packet = 0x0003
    draft = file.with_suffix(".draft")
    with socket.socket(
        socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(every_packet)
    ) as interface:
        while True:
            packet, (_, _, direction, *_) = interface.recvfrom(65536)
            if direction != socket.PACKET_OUTGOING or not is_tagged_gradient(packet):
                continue
            draft.write_bytes(packet)
            os.replace(draft, file)
            time.sleep(0.001)


def send(file, count, per_second, size):
    while not file.exists():
        time.sleep(0.01)
    drawn = random.Random(1)
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
        begin = time.monotonic()
        for number in range(count):
            if number % 64 == 0:
                captured = file.read_bytes()
                head, payload = captured[: IP + UDP], bytearray(captured[IP + UDP :][:size])
                time.sleep(max(0, begin + number / per_second - time.monotonic()))
            payload[60:64] = drawn.randbytes(4)
            payload[-TAG:] = drawn.randbytes(TAG)
            length = (UDP + len(payload)).to_bytes(2)
            # The kernel fills in the IP checksum and length; a UDP checksum of 0 is not checked.
            ip = head[:2] + bytes(2) + head[4:6] + bytes(2) + head[8:10] + bytes(2) + head[12:IP]
            udp = head[IP : IP + 4] + length + bytes(2)
            target = socket.inet_ntoa(head[16:20])
            raw.sendto(ip + udp + payload, (target, 0))
    print(f"sent {count} in {time.monotonic() - begin:.1f} s", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "listen":
        listen(pathlib.Path(sys.argv[2]))
    else:
        send(pathlib.Path(sys.argv[2]), *(int(word) for word in sys.argv[3:6]))
