"""What a worker remembers of a stream, and its timers: docs/protocol.md §5, from it alone."""

import random
from dataclasses import dataclass

from .numbers import Operation, fmix32


@dataclass
class Fragment:
    sequence: int
    operation: Operation
    part: object
    start: int
    end: int
    kind: int = 0
    payload: bytes = b""
    sent_at: float | None = None
    repeats: int = 0
    went_straight: bool = False  # when it was sent last
    hurried: bool = False  # was repeated because three later ones were answered
    direct_by_timer: bool = False
    timer_fired: bool = False
    sampled: bool = False  # its round trip says something: its operation has been answered before


class Stream:
    def __init__(self, number, job, incarnation, wmax, linear):
        self.number, self.wmax = number, wmax
        self.base = fmix32(fmix32(job) ^ incarnation)
        self.linear = linear
        self.values = 0  # submitted so far
        self.end = 0  # the next sequence to be given to a fragment
        self.next = 0  # the next to be sent
        self.newest_answered = -1
        self.outstanding = {}  # by sequence; in order, as they are sent in order
        self.unsent = {}
        self.next_index = {}  # by slot
        self.resend_up_to = -1  # a NACK asked for it before it was sent
        self.after_timer = []  # what was outstanding when the timer fired
        self.follow_at = None  # when these are repeated as well, unless the timer was early
        self.to_follow = []  # what is repeated at the pace of the answers
        self.follow_all = False  # whatever is answered meanwhile
        self.backoff = 0
        self.deadline = None

    def index(self, sequence):
        slot = sequence % self.wmax
        if slot in self.next_index:
            return self.next_index[slot]
        if self.linear:
            place = (self.number * self.wmax + slot) % self.linear
            return -(-(place << 32) // self.linear) & 0xFFFFFFFF
        return fmix32(self.base ^ (self.number * 65536 + slot))

    def oldest(self):
        return next(iter(self.outstanding.values()), None)

    def lowest_unanswered(self):
        return next(iter(self.outstanding), self.next)


class RoundTrip:
    """RFC 6298 with the page's constants."""

    def __init__(self):
        self.smoothed, self.variation = None, 0.0

    def sample(self, seconds):
        if self.smoothed is None:
            self.smoothed, self.variation = seconds, seconds / 2
            return
        self.variation += (abs(self.smoothed - seconds) - self.variation) / 4
        self.smoothed += (seconds - self.smoothed) / 8

    def time_out(self, backoff):
        base = 0.1 if self.smoothed is None else self.smoothed + max(0.025, 4 * self.variation)
        return min(1.0, base * 2**backoff) * (1 + random.random() / 8)

    def tolerance(self):
        smoothed = self.smoothed or 0.1
        return smoothed + max(0.002, smoothed / 4)


class Repeated:
    """When a JOIN or LEAVE is due: after 50 … 1000 ms until it is answered, then once a second."""

    def __init__(self):
        self.again()

    def again(self):
        self.due, self.pause = 0.0, 0.05

    def answered(self, now):
        self.due, self.pause = now + 1, 1.0

    def is_due(self, now):
        if now < self.due:
            return False
        self.due, self.pause = now + self.pause, min(1.0, 2 * self.pause)
        return True
