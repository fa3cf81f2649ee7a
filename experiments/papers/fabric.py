"""Hosts around a switch, and what a transfer between two of them costs: the peers' network.

A transfer passes through four FIFOs: the sending host's work, its link to the switch, the switch's
link to the receiver, and the receiver's work. They overlap as a pipeline does, and each of the
links adds a delay. The switch never blocks, and nothing is lost. That is the peers at their best:
TCP would lose packets where many send to one, and RoCE would pause links.

The unit of a FIFO is a segment, many packets of one transfer, because the FIFOs' throughput does
not depend on it.
"""

import heapq
from dataclasses import dataclass


@dataclass(frozen=True)
class Host:
    """Packets of a transport, and what they cost the host, for each direction."""

    payload: int  # bytes of a packet
    header: int  # further bytes on the wire
    packet_ns: float = 0.0
    byte_ns: float = 0.0

    def work_ns(self, size):
        return size / self.payload * self.packet_ns + size * self.byte_ns

    def wire_ns(self, size, gbit):
        return size * (1 + self.header / self.payload) * 8 / gbit

    def gbit(self, line):
        """How much payload a host can send, or receive."""
        return 8 / max(self.work_ns(1), self.wire_ns(1, line))


# RoCE v2 with 4,096 bytes in a packet. The network interface does all the work.
RDMA = Host(4096, 82)


def tcp(gbit):
    """TCP over Ethernet frames of 1,500 bytes, where a host copies `gbit` in each direction."""
    return Host(1448, 90, byte_ns=8 / gbit)


class Fabric:
    def __init__(self, hosts, host, gbit=100.0, delay_ns=1000.0):
        self.host, self.line, self.delay_ns = host, gbit, delay_ns
        self._free = {}  # by stage and host: when its FIFO has served all that it was offered
        self._events, self._number = [], 0
        self.hosts = hosts

    def at(self, when, call, *arguments):
        self._number += 1
        heapq.heappush(self._events, (when, self._number, call, arguments))

    def _served(self, stage, host, now, service):
        end = max(self._free.get((stage, host), 0.0), now) + service
        self._free[stage, host] = end
        return end

    def send(self, now, source, target, size, call, *arguments):
        """Calls `call(time, *arguments)` when `size` bytes have arrived. Within a host, at once."""
        if source == target:
            self.at(now, call, *arguments)
            return
        work, wire = self.host.work_ns(size), self.host.wire_ns(size, self.line)
        ready = self._served("send", source, now, work)
        gone = self._served("up", source, ready, wire)
        self.at(gone + self.delay_ns, self._at_switch, target, work, wire, call, arguments)

    def _at_switch(self, now, target, work, wire, call, arguments):
        arrived = self._served("down", target, now, wire) + self.delay_ns
        self.at(self._served("receive", target, arrived, work), call, *arguments)

    def run(self):
        """Runs until nothing is left to do; returns the time."""
        now = 0.0
        while self._events:
            now, _, call, arguments = heapq.heappop(self._events)
            call(now, *arguments)
        return now
