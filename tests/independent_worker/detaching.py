"""A worker that knows the path around a dead switch: docs/protocol.md §5, *Detaching*, alone."""

import time

from .numbers import EXACT
from .worker import JOINING, LEAVING, NEVER, NO_ROOM, STATUS, STRAIGHT, TREE, WAITING, Worker

VALUE_COUNT = 3  # a reason of a refusal


class DetachingWorker(Worker):
    """Numbers of rules are those of *Detaching*. It leaves out ICMP errors, and so rule 4."""

    def __init__(self, *arguments, **options):
        self.direct_repeats, self.suspected_at = 0, NEVER
        self.attach_after, self.return_pause = 0.0, 0.0
        self.heard = {TREE: time.monotonic(), STRAIGHT: 0.0}
        super().__init__(*arguments, **options)

    @property
    def attached(self):
        return self.path == TREE

    def step(self):
        super().step()
        now = time.monotonic()
        tree, straight, since = self.heard[TREE], self.heard[STRAIGHT], self.suspected_at
        if not self.attached or len(self.route) == 1 or self.state >= LEAVING:
            return
        silent = now > tree + self.lease and now < straight + 3  # rule 5
        if silent or tree <= since < straight < now - 0.1:  # rule 3
            self.detach(now)
        elif min(tree, straight) > since or now > since + 1:
            self.direct_repeats, self.suspected_at = 0, NEVER

    def detach(self, now):  # rule 7
        self.detachments += 1
        self.attach_after = now + self.return_pause  # rule 8
        self.return_pause = min(60.0, 2 * self.return_pause or 0.25)
        self.change_path(STRAIGHT, now)

    def change_path(self, path, now):
        self.path, self.direct_repeats, self.suspected_at = path, 0, NEVER
        self.enter(self.state)
        self.announce(now)
        self.send_all_again(now)

    def take_join_ack(self, body, path, now):
        current = super().take_join_ack(body, path, now)
        if current is not None:
            self.heard[path] = now
        if current and path == TREE and not self.attached and now >= self.attach_after:
            self.change_path(TREE, now)  # rule 8

    def take_status(self, packet, body, path, fragment, now):
        super().take_status(packet, body, path, fragment, now)
        if len(body) >= STATUS.size and STATUS.unpack_from(body)[0] == WAITING:
            self.direct_repeats = max(0, self.direct_repeats - 1)  # rule 1
            self.heard[path] = now

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
        if fragment.repeats < 3 or fragment.kind == EXACT or not self.attached:
            return
        fragment.direct_by_timer = True
        self.direct_repeats += 1
        if self.direct_repeats >= 3 and self.suspected_at == NEVER and len(self.route) > 1:
            self.suspected_at = now
            self.enter(self.state)

    def take_parameter(self, packet, body, fragment, now):
        super().take_parameter(packet, body, fragment, now)
        if not hasattr(fragment, "direct_by_timer"):
            self.direct_repeats = 0  # rule 1
