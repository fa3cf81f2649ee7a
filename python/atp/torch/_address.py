"""The address at which the other ranks can reach this one."""

import fcntl
import ipaddress
import os
import re
import socket
import struct
import uuid

_SIOCGIFADDR = 0x8915  # linux/sockios.h
_INTERFACE_VARIABLES = ("ATP_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


def own_host(route: str = "") -> str:
    """The address of the interface ATP_SOCKET_IFNAME (or GLOO_SOCKET_IFNAME, which jobs may still
    set); else the source address towards MASTER_ADDR, or towards the first hop of the route; else
    the address of this host's name. Loopback only if all of these are: on its own host, the name in
    MASTER_ADDR may resolve to loopback, and ranks on other hosts then need far_host()."""
    for variable in _INTERFACE_VARIABLES:
        if interface := _first_interface(variable):
            return _address_of(interface, variable)
    given = [host for host in (os.environ.get("MASTER_ADDR"), _first_host(route)) if host]
    found = [address for host in given or [socket.gethostname()] if (address := _towards(host))]
    return next((a for a in found if not _is_loopback(a)), found[0] if found else "127.0.0.1")


def is_loopback(address: str) -> bool:
    """Whether "HOST:PORT", or "[HOST]:PORT", is an address of its own host alone."""
    return _is_loopback(address.rpartition(":")[0])


def far_host(others: list[str]) -> str:
    """An address of this host for ranks elsewhere; others: "HOST:PORT" of such ranks, if known.

    For hosts on which own_host() finds loopback because that is what their own name resolves to:
    the installers of Debian and Ubuntu write 127.0.1.1 into /etc/hosts.
    """
    for variable in _INTERFACE_VARIABLES:
        if interface := _first_interface(variable):
            raise ValueError(
                f"{variable}={interface!r} is a loopback interface, at which ranks on other hosts "
                "cannot reach this one: name the interface that connects the hosts"
            )
    # The last two are documentation's addresses: the interface of the default route.
    targets = [other.rpartition(":")[0].strip("[]") for other in others]
    for target in [*targets, "192.0.2.1", "2001:db8::1"]:
        address = _towards(target)
        if address and not _is_loopback(address):
            return address
    for _, interface in socket.if_nameindex():
        try:
            address = _address_of(interface, "")
        except ValueError:
            continue
        if not _is_loopback(address):
            return address
    raise ValueError(
        f"{socket.gethostname()} has no address at which ranks on other hosts can reach it; set "
        "ATP_SOCKET_IFNAME to the interface that connects the hosts"
    )


def same_network(one: str, other: str) -> bool:
    """Whether these are results of this_host() in two processes that have loopback in common."""
    unknown = one.startswith("unknown-") or other.startswith("unknown-")
    return unknown or one.split("/")[0] == other.split("/")[0]


def this_host() -> str:
    """Equal in two processes if they can share memory: the same boot, the same user and user
    namespace, and the same network namespace, in which shared memory has its name."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read().strip()
        spaces = [os.stat(f"/proc/self/ns/{kind}").st_ino for kind in ("net", "user")]
        return f"{boot}-{spaces[0]}/{spaces[1]}-{os.geteuid()}"
    except OSError:
        return f"unknown-{uuid.uuid4()}"


def _first_interface(variable: str) -> str:
    return os.environ.get(variable, "").split(",")[0]


def _address_of(interface: str, variable: str) -> str:
    request = struct.pack("256s", interface.encode()[:15])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
        except OSError as error:
            if address := _ipv6_address_of(interface):
                return f"[{address}]"
            raise ValueError(
                f"{variable}={interface!r}: this host has no such interface with an address "
                f"({error.strerror})"
            ) from error
    return socket.inet_ntoa(answer[20:24])


def _ipv6_address_of(interface: str) -> str | None:
    """An address that is not link-local: those mean nothing without an interface's name."""
    try:
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except OSError:
        return None
    for digits, _, _, _, _, name in rows:
        address = ipaddress.IPv6Address(int(digits, 16))
        if name == interface and not address.is_link_local:
            return str(address)
    return None


def _first_host(route: str) -> str | None:
    """The first hop of "HOST:PORT,…"."""
    found = re.match(r"\s*(?:\[([^\]]+)\]|([^:,;\s]+)):", route)
    return (found[1] or found[2]) if found else None


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address.strip("[]")).is_loopback


def _towards(host: str) -> str | None:
    """The source address of packets to this host; None if there is no route to it."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(address)  # a datagram socket: nothing is sent
            own = probe.getsockname()[0]
    except OSError:
        return None
    return f"[{own}]" if ":" in own else own
