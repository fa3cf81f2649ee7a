"""SwitchML's scheme, simulated from its description: a static pool of slots in the switch.

The switch is the server: it answers as soon as the last worker's packet of a slot has arrived, and
the answer lets each worker send its next packet with that slot. A worker that has no answer after a
time-out repeats its packet. The switch keeps the last result of each slot, for workers that missed
it, until the slot's next result is complete (two alternating versions of a slot).

Links are those of the simulator: a FIFO that serves one packet at a time at a rate, and a delay; a
host needs some more time for each packet that it receives. This model is written from those rules
alone and shares no code with the product.
"""

import heapq
import random
from dataclasses import dataclass

PAPER_PACKET_BYTES = 180  # of the prototype; 32 values
PAPER_VALUES = 32


@dataclass(frozen=True)
class Pool:
    workers: int = 8
    slots: int = 256
    values: int = PAPER_VALUES
    packet_bytes: int = PAPER_PACKET_BYTES
    chunks: int = 4000  # packets of each worker
    gbit: float = 100.0
    packet_ns: float = 18.0
    delay_ns: float = 1000.0
    timeout_ns: float = 1e6
    loss: float = 0.0  # per packet, from and to worker 0
    seed: int = 1

    @property
    def round_trip_ns(self):
        """Of a packet with a full window before it, if that fills its path."""
        return self.slots * (self.packet_bytes * 8 / self.gbit + self.packet_ns)


@dataclass
class Outcome:
    gbit: float  # of sums
    ns: float
    sent: int  # packets of all workers, repeats included
    repeats: int
    answered: int  # results that the switch has completed


class _Fifo:
    """When a packet that is offered now will have arrived."""

    def __init__(self, pool, packet_ns):
        self._service = pool.packet_bytes * 8 / pool.gbit + packet_ns
        self._delay, self._free = pool.delay_ns, 0.0

    def arrival(self, now):
        self._free = max(self._free, now) + self._service
        return self._free + self._delay


class _Run:
    def __init__(self, pool):
        self.pool, self.random = pool, random.Random(pool.seed)
        self.up = [_Fifo(pool, 0) for _ in range(pool.workers)]
        self.down = [_Fifo(pool, pool.packet_ns) for _ in range(pool.workers)]
        self.events, self.number = [], 0
        self.waits = [{} for _ in range(pool.workers)]  # by worker: {slot: (chunk, attempt)}
        self.seen = {}  # (slot, version): [chunk, set of workers]
        self.sent = self.repeats = self.answered = 0
        self.end = 0.0

    def at(self, when, *what):
        self.number += 1
        heapq.heappush(self.events, (when, self.number, what))

    def lost(self, worker):
        return worker == 0 and self.pool.loss > 0 and self.random.random() < self.pool.loss

    def send(self, now, worker, chunk, attempt):
        slot = chunk % self.pool.slots
        self.waits[worker][slot] = (chunk, attempt)
        self.sent += 1
        self.repeats += attempt > 0
        arrival = self.up[worker].arrival(now)
        if not self.lost(worker):
            self.at(arrival, "at_switch", worker, chunk)
        if self.pool.loss > 0:
            self.at(now + self.pool.timeout_ns, "timeout", worker, chunk, attempt)

    def answer(self, now, worker, chunk):
        arrival = self.down[worker].arrival(now)
        if not self.lost(worker):
            self.at(arrival, "at_worker", worker, chunk)

    def at_switch(self, now, worker, chunk):
        version = (chunk % self.pool.slots, chunk // self.pool.slots % 2)
        state = self.seen.get(version)
        if state is None or state[0] < chunk:
            state = self.seen[version] = [chunk, set()]
        elif state[0] > chunk:
            return  # a repeat of a chunk that everybody has
        if len(state[1]) == self.pool.workers:  # complete: this worker missed the result
            self.answer(now, worker, chunk)
            return
        state[1].add(worker)
        if len(state[1]) == self.pool.workers:
            self.answered += 1
            for one in range(self.pool.workers):
                self.answer(now, one, chunk)

    def at_worker(self, now, worker, chunk):
        slot = chunk % self.pool.slots
        if self.waits[worker].get(slot, (None,))[0] != chunk:
            return  # the worker has it already
        del self.waits[worker][slot]
        if chunk + self.pool.slots < self.pool.chunks:
            self.send(now, worker, chunk + self.pool.slots, 0)
        elif not any(self.waits):
            self.end = now

    def timeout(self, now, worker, chunk, attempt):
        if self.waits[worker].get(chunk % self.pool.slots) == (chunk, attempt):
            self.send(now, worker, chunk, attempt + 1)

    def play(self):
        for worker in range(self.pool.workers):
            for chunk in range(min(self.pool.slots, self.pool.chunks)):
                self.send(0.0, worker, chunk, 0)
        while self.events:
            now, _, (what, *arguments) = heapq.heappop(self.events)
            getattr(self, what)(now, *arguments)
        bits = 32 * self.pool.values * self.pool.chunks
        return Outcome(bits / self.end, self.end, self.sent, self.repeats, self.answered)


def play(pool):
    """Sums one tensor of `chunks` packets."""
    return _Run(pool).play()
