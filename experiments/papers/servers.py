"""Parameter servers, simulated: workers push partitions of a tensor, and servers answer with sums.

Partitions are assigned to the servers in turn. The server answers all workers once it has the
partition of each (BytePS's rule). A worker has at most `credits` partitions under way, so pushes
overlap with answers. Adding costs no time. One worker and one server, N workers and one, and N
workers with a server on each of their hosts are cases of this.
"""

from collections import Counter
from dataclasses import dataclass

from experiments.papers.fabric import RDMA, Fabric, Host


@dataclass(frozen=True)
class Servers:
    workers: int = 8
    servers: int = 8
    colocated: bool = True  # server i is on the host of worker i
    host: Host = RDMA
    partitions: int = 128
    partition_bytes: int = 4_000_000
    segment_bytes: int = 250_000
    credits: int = 32

    def bound(self, line=100.0):
        """Gbit/s of sums, by what the busiest direction of a host carries per byte summed."""
        rate = self.host.gbit(line)
        if not self.colocated:
            return rate / max(1, self.workers / self.servers)
        carried = (self.workers - 1) / self.servers  # a server's share, of all other workers
        carried += (self.servers - 1) / self.servers  # a worker's, to or from other hosts
        return rate / carried


@dataclass
class Outcome:
    gbit: float  # of sums, over the middle half of the partitions
    ns: float  # until the last worker has the last sum


class _Run:
    def __init__(self, setup):
        if setup.colocated and setup.servers > setup.workers:
            raise ValueError(
                f"expected at most a server per worker's host, found {setup.servers} servers on "
                f"{setup.workers} hosts; put them on hosts of their own (colocated=False)"
            )
        self.setup = setup
        first = 0 if setup.colocated else setup.workers
        self.server = [first + index for index in range(setup.servers)]
        self.fabric = Fabric(first + max(setup.servers, setup.workers), setup.host)
        self.segments = max(1, setup.partition_bytes // setup.segment_bytes)
        self.pushed = [0] * setup.workers  # partitions whose push has begun
        self.at_server, self.at_worker = Counter(), Counter()  # segments that have arrived
        self.had = Counter()  # workers that have a partition's sum
        self.complete = []  # times at which a partition's sum was everywhere

    def push(self, now, worker):
        partition = self.pushed[worker]
        if partition == self.setup.partitions:
            return
        self.pushed[worker] += 1
        self.transfer(now, worker, self.server_of(partition), self.arrived, partition)

    def server_of(self, partition):
        return self.server[partition % self.setup.servers]

    def transfer(self, now, source, target, call, *arguments):
        size = self.setup.partition_bytes / self.segments
        for _ in range(self.segments):
            self.fabric.send(now, source, target, size, call, *arguments)

    def arrived(self, now, partition):
        self.at_server[partition] += 1
        if self.at_server[partition] == self.segments * self.setup.workers:
            for worker in range(self.setup.workers):
                self.transfer(
                    now, self.server_of(partition), worker, self.answered, worker, partition
                )

    def answered(self, now, worker, partition):
        self.at_worker[worker, partition] += 1
        if self.at_worker[worker, partition] < self.segments:
            return
        self.had[partition] += 1
        if self.had[partition] == self.setup.workers:
            self.complete.append(now)
        self.push(now, worker)

    def play(self):
        for worker in range(self.setup.workers):
            for _ in range(self.setup.credits):
                self.push(0.0, worker)
        end = self.fabric.run()
        if len(self.complete) != self.setup.partitions:
            raise RuntimeError(
                f"expected sums of {self.setup.partitions} partitions, found {len(self.complete)}"
            )
        return Outcome(self.middle(), end)

    def middle(self):
        first, last = len(self.complete) // 4, 3 * len(self.complete) // 4
        if first == last:
            return 8 * self.setup.partition_bytes / self.complete[-1]
        bits = 8 * self.setup.partition_bytes * (last - first)
        return bits / (self.complete[last] - self.complete[first])


def play(setup):
    return _Run(setup).play()
