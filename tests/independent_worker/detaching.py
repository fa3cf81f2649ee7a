"""A worker that knows the path around a dead switch: docs/inside/protocol §5, *Detaching*."""

import time

from .membership import JOINING, LEAVING
from .numbers import EXACT
from .packets import NEVER, NO_ROOM, STATUS, STRAIGHT, TREE, VALUE_COUNT, WAITING
from .worker import Worker

REFRESH = 1.0  # seconds


class DetachingWorker(Worker):
    """Numbers of rules are those of *Detaching*. It leaves out ICMP errors, and rule 1's JOINs."""

    def __init__(self, *arguments, **options):
        self.attach_after, self.return_pause = 0.0, 0.0  # rule 8
        self.tree_answered = time.monotonic()  # last, or else when the worker began
        self.straight_since, self.straight_at = NEVER, -NEVER  # rule 5
        self.acquit()
        super().__init__(*arguments, **options)

    @property
    def attached(self):
        return self.path == TREE

    def acquit(self):
        self.suspected_at, self.convicted_at = NEVER, NEVER  # rules 1 and 3

    def hear(self, path, now):  # rule 5
        if path == STRAIGHT:
            if self.straight_since == NEVER or now > self.straight_at + 3 * REFRESH:
                self.straight_since = now
            self.straight_at = now

    def hear_tree(self, now):
        self.tree_answered, self.straight_since = now, NEVER
        if self.convicted_at != NEVER:  # rule 3, second row
            self.acquit()

    def step(self):
        super().step()
        now, refresh_ends = time.monotonic(), self.suspected_at + REFRESH
        if not self.attached or len(self.route) == 1 or self.state >= LEAVING:
            return
        is_silent = now > self.tree_answered + self.lease
        straight_works = self.straight_since + REFRESH < now < self.straight_at + 3 * REFRESH
        if is_silent and straight_works or self.convicted_at < min(now, refresh_ends):
            self.detach(now)  # rule 5; rule 3, third row
        elif now > refresh_ends:  # rule 3, last row
            self.acquit()

    def judge(self, now):  # rule 3: the straight JOIN is answered
        if self.suspected_at == NEVER or self.convicted_at != NEVER:
            return
        if self.tree_answered >= self.suspected_at:
            self.acquit()
        else:
            self.convicted_at = now + 0.2

    def detach(self, now):  # rule 7
        self.detachments += 1
        self.attach_after = now + self.return_pause  # rule 8
        self.return_pause = min(60.0, 2 * self.return_pause or 0.25)
        self.change_path(STRAIGHT, now)

    def change_path(self, path, now):
        self.path = path
        self.acquit()
        self.enter(self.state)
        self.announce(now)
        self.send_all_again(now)

    def take_join_ack(self, body, path, now):
        current = super().take_join_ack(body, path, now)
        if current is None:
            return
        if path == TREE:
            self.hear_tree(now)
        elif self.attached:
            self.judge(now)
        if current and path == TREE and not self.attached and now >= self.attach_after:
            self.change_path(TREE, now)  # rule 8

    def take_status(self, packet, body, path, fragment, now):
        super().take_status(packet, body, path, fragment, now)
        if path == TREE and len(body) >= STATUS.size and STATUS.unpack_from(body)[0] == WAITING:
            self.hear_tree(now)

    def take_refusal(self, code, reason, path, now):  # rule 6, and §2, Refusals, rule 2
        harmless = self.state != JOINING or not self.attached
        harmless = harmless or reason in (VALUE_COUNT, *NO_ROOM)
        if path == STRAIGHT or len(self.route) == 1 or not harmless:
            super().take_refusal(code, reason, path, now)
        elif self.attached:
            self.detach(now)

    def fire(self, stream, now):  # rules 1 and 2
        super().fire(stream, now)
        fragment = next(iter(stream.outstanding.values()))
        if fragment.repeats < 2 or fragment.kind == EXACT or not self.attached:
            return
        if self.suspected_at == NEVER and len(self.route) > 1:
            self.suspected_at = now
            self.enter(self.state)
