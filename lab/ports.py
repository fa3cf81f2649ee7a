"""Ports for programs that are told on which to listen."""

import contextlib
import random
import socket
from pathlib import Path

LEAST = 10_000
drawn = random.SystemRandom()  # a seeded one gives all tests that run side by side the same


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Free as UDP's and as TCP's, at every IPv4 address, and different from each other.

    Between this call and the program's own bind() a port is anybody's. So they are drawn from below
    the range from which the kernel gives every connection of this machine one.
    """
    with contextlib.ExitStack() as held:
        ports = []
        while len(ports) < count:
            port = drawn.randrange(LEAST, first_of_connections())
            with contextlib.suppress(OSError):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    probe = held.enter_context(socket.socket(socket.AF_INET, kind))
                    probe.bind(("", port))
                ports.append(port)
    return ports


def first_of_connections():
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    return first if first > 2 * LEAST else 32_768  # the kernel's own default


def consecutive_ports(count):
    """The first of so many that are free."""
    for _ in range(100):
        first = drawn.randrange(LEAST, first_of_connections() - count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    held.enter_context(socket.socket(socket.AF_INET, kind)).bind(("", port))
            return first
    raise AssertionError(f"no {count} consecutive free ports")
