"""A ring all-reduce, simulated: 2 (N - 1) steps in which each host sends to the next one.

The tensor has a chunk per worker. In the first N - 1 steps a worker adds what it receives to its
own chunk and passes the sum on; in the others it passes complete sums on. It passes a segment on as
soon as it has it (Horovod's and NCCL's pipelining). Adding costs no time.
"""

from dataclasses import dataclass

from experiments.papers.fabric import RDMA, Fabric, Host


@dataclass(frozen=True)
class Ring:
    workers: int = 8
    host: Host = RDMA
    tensor_bytes: int = 64_000_000  # of tensors that are fused, as Horovod does
    segment_bytes: int = 250_000

    @property
    def steps(self):
        return 2 * (self.workers - 1)

    def bound(self, line=100.0):
        """Gbit/s of sums: every host sends and receives 2 (N - 1) / N of the tensor."""
        return self.host.gbit(line) * self.workers / self.steps


@dataclass
class Outcome:
    gbit: float  # of sums
    ns: float


class _Run:
    def __init__(self, setup):
        self.setup = setup
        self.fabric = Fabric(setup.workers, setup.host)
        chunk = setup.tensor_bytes / setup.workers
        self.segments = max(1, round(chunk / setup.segment_bytes))
        self.size = chunk / self.segments
        self.received = 0

    def send(self, now, worker, step):
        target = (worker + 1) % self.setup.workers
        self.fabric.send(now, worker, target, self.size, self.arrived, target, step)

    def arrived(self, now, worker, step):
        self.received += 1
        if step + 1 < self.setup.steps:
            self.send(now, worker, step + 1)

    def play(self):
        for worker in range(self.setup.workers):
            for _ in range(self.segments):
                self.send(0.0, worker, 0)
        end = self.fabric.run()
        expected = self.setup.workers * self.segments * self.setup.steps
        if self.received != expected:
            raise RuntimeError(f"expected {expected} segments, found {self.received}")
        return Outcome(8 * self.setup.tensor_bytes / end, end)


def play(setup):
    return _Run(setup).play()
