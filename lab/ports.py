"""Free ports for programs that need to be given one."""

import contextlib
import random
import socket
from pathlib import Path

LEAST = 10_000
drawn = random.SystemRandom()  # a seeded one would give parallel tests the same ports


def free_port():
    return free_ports(1)[0]


def free_ports(count):
    """Ports that are free for UDP and TCP, at every IPv4 address, and differ from each other.

    Until the program's own bind() any process could take the port. So they are chosen below the
    ephemeral range, from which the kernel assigns ports to connections.
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
    """The first of `count` consecutive free ports."""
    for _ in range(100):
        first = drawn.randrange(LEAST, first_of_connections() - count)
        with contextlib.ExitStack() as held, contextlib.suppress(OSError):
            for port in range(first, first + count):
                for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
                    held.enter_context(socket.socket(socket.AF_INET, kind)).bind(("", port))
            return first
    raise AssertionError(f"no {count} consecutive free ports")
