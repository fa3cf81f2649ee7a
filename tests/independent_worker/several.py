"""A job of several servers, a Worker for each: docs/inside/protocol §5, from it alone."""

import numpy as np

from .numbers import BLOCK

LEAST_PART = 65536


def block_begin(segments, value):
    """Where the block that holds the value begins."""
    begin = 0
    for length in segments:
        if value < begin + length:
            return begin + (value - begin) // BLOCK * BLOCK
        begin += length
    return begin


def ends_of(segments, servers):
    length = sum(segments)
    for parts in range(max(1, min(servers, length // LEAST_PART)), 0, -1):
        ends = [block_begin(segments, length * i // parts) for i in range(1, parts)] + [length]
        if parts == 1 or min(np.diff([0, *ends])) >= LEAST_PART:
            return ends


def segments_between(segments, begin, end):
    bounds = np.clip(np.cumsum([0, *segments]), begin, end)
    return [int(length) for length in np.diff(bounds)]


class PartsOfSum:
    """An operation that was cut."""

    def __init__(self, sums):
        self.sums = sums
        self.small = sums[0].small

    def result(self):
        return np.concatenate([part.result() for part in self.sums])


class SeveralServers:
    """Has the methods of a Worker."""

    def __init__(self, workers):
        self.workers = workers
        self.values = [0] * len(workers)

    def join(self):
        for worker in self.workers:
            worker.join()

    def submit(self, values, reduction="sum", segments=(), tag=0):
        segments = list(segments) or [len(values)]
        order = sorted(range(len(self.workers)), key=lambda i: (self.values[i], i))
        begin, sums = 0, []
        for server, end in zip(order, ends_of(segments, len(order)), strict=False):
            part = values[begin:end]
            lengths = segments_between(segments, begin, end)
            worker = self.workers[server]
            sums.append(worker.submit(part, reduction, lengths, tag, whole=len(values)))
            self.values[server] += end - begin
            begin = end
        return PartsOfSum(sums)

    def wait(self, seconds=10):
        """All at once, since each has leases to renew and repeats to send."""
        first, *others = self.workers

        def idle():
            for worker in others:
                worker.step()
            return all(worker.idle() for worker in self.workers)

        first.wait_until(idle, seconds, "the end of all operations")

    def leave(self):
        for worker in self.workers:
            worker.leave()
