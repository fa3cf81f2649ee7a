"""Under which address the other ranks can reach this one."""

import fcntl
import os
import socket
import struct
import uuid

_SIOCGIFADDR = 0x8915  # linux/sockios.h


def own_host() -> str:
    """That of the interface GLOO_SOCKET_IFNAME, as for Gloo; else the one from which MASTER_ADDR is
    reached; else what this host's name stands for, or else loopback."""
    interface = os.environ.get("GLOO_SOCKET_IFNAME", "").split(",")[0]
    if interface:
        return _address_of(interface)
    for host in (os.environ.get("MASTER_ADDR"), socket.gethostname()):
        if host and (address := _towards(host)):
            return address
    return "127.0.0.1"


def this_host() -> str:
    """Equal at two processes if they can share memory: of one running system, one user of one user
    namespace, and one network namespace, as what is shared is found under a name of that."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "user")]
        return f"{boot}-{spaces[0]}-{spaces[1]}-{os.geteuid()}"
    except OSError:
        return f"unknown-{uuid.uuid4()}"


def _address_of(interface: str) -> str:
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            raise ValueError(
                f"GLOO_SOCKET_IFNAME={interface!r}: this host has no such interface with an IPv4 "
                f"address ({error.strerror})"
            ) from error
    return socket.inet_ntoa(answer[20:24])


def _towards(host: str) -> str | None:
    """The address from which packets to this host leave; None if nobody knows the way."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # of a datagram socket: nothing is sent
            own = probe.getsockname()[0]
    except OSError:
        return None
    return f"[{own}]" if ":" in own else own
