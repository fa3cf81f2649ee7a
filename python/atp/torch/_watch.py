"""How long the ranks that make a group have, and whether all of them are still alive.

A rank says in the group's store that it is there, and says it again every second while it makes
the group. It watches the nearest ranks on both sides: a process on the same host by its number,
which ends a wait at once, and any other by those repeated words. The first that finds a rank lost
writes that into the store, where all others see it, as does a rank that cannot make the group. So
nobody waits for such a rank until the time-out, which by default is half an hour.
"""

import datetime
import functools
import logging
import os
import pathlib
import threading
import time

import torch.distributed as dist

# A rank looks this often; with every fourth look it also repeats that it is alive.
_LOOKS_EVERY_S = 0.25
_SPEAKS_EVERY = 4
# As many repeats must be missing. Looks are counted, not seconds: a rank that is slow itself, or
# whose store is, then waits longer for the others, too.
_MOST_SILENT = 10
# How far a rank looks for its nearest neighbour that is still making the group.
_REACH = 8
_FIRST_LOOK_S = 0.001
# How long a rank that has made the group, or failed to, waits for a store that may be frozen.
_LEAVES_WITHIN_S = 3.0
# A rank that waits for others says so after this time, and then after pauses that become longer.
_TELLS_AFTER_S = 1.0
_TELLS_AGAIN_AFTER_S = 10.0
# A process that is killed closes its sockets first, and so the store that it serves: only then does
# the kernel say that it has ended.
_ENDS_WITHIN_S = 1.0
# A store that answers nothing for this long is reported: all calls of a rank wait for it.
_STORE_SILENT_S = 1.0

_SEPARATOR = "\n"
_WAS_LOST = "was lost while the group was made: "

_log = logging.getLogger("atp.torch")


class Deadline:
    """One time-out for a whole call, however many steps the call has."""

    def __init__(self, timeout: datetime.timedelta):
        self._timeout = timeout
        self._end = time.monotonic() + timeout.total_seconds()

    @property
    def left(self) -> datetime.timedelta:
        """At least a millisecond: with no time at all, some steps would name nobody."""
        return datetime.timedelta(seconds=max(self._end - time.monotonic(), 0.001))

    @property
    def most(self) -> datetime.timedelta:
        """Most of it, for a step whose outcome the ranks then tell each other in the rest."""
        return self.left * 3 / 4

    @property
    def has_passed(self) -> bool:
        return time.monotonic() >= self._end

    def __str__(self) -> str:
        return f"{self._timeout.total_seconds():g} s"


class Watch:
    """One rank's watch over the others, from its place in a meeting to the end of a `with` block.

    interruption: an `atp._C.Interruption`, which ends a wait in the extension.
    """

    def __init__(self, interruption=None):
        self._interruption = interruption
        self._over = threading.Event()
        self._thread = None
        self._lost = ""
        self._failure = ""  # why this rank cannot make the group
        self._first = ""  # the words of rank 0, which may serve the store
        self._store = None
        self._silent = {}  # by rank: its last words, and for how many looks it has not changed them

    @property
    def interruption(self):
        return self._interruption

    def __enter__(self):
        return self

    def __exit__(self, _, error, __):
        if self._thread is None:
            self._over.set()
            return
        if error is not None and not self._lost:  # Ctrl-C, too
            self._failure = str(error).strip().partition("\n")[0] or type(error).__name__
        self._over.set()
        self._thread.join(_LEAVES_WITHIN_S)
        # A rank that has heard of a loss hangs up, which looks like a loss of that rank.
        if isinstance(error, RuntimeError) and _WAS_LOST in self._lost:
            if self._lost not in str(error):
                raise dist.DistBackendError(self._lost) from error
        if isinstance(error, dist.DistNetworkError):
            raise dist.DistBackendError(self._why_store_failed(error)) from error

    def begin(self, store, rank: int, size: int, name, whoami: str) -> None:
        """name(rank): what messages call a rank; whoami: this process."""
        if size == 1:
            return
        self._store, self._rank, self._size, self._name = store, rank, size, name
        self._words = _SEPARATOR.join([whoami, _process_mark(os.getpid())])
        self._store_answered = time.monotonic()
        threading.Thread(target=self._watch_store, name="atp-store", daemon=True).start()
        self._speak(0)
        self._thread = threading.Thread(target=self._run, name="atp-meeting", daemon=True)
        self._thread.start()

    def check(self) -> None:
        """Raises an error once a rank is known to be lost."""
        if self._lost:
            raise dist.DistBackendError(self._lost)

    def wait(self, store, keys: list[str], deadline: Deadline, whom, longest_pause_s: float = 0.05):
        """Yields before each further look at these keys; returns once they are there.

        Ends by itself, without them, when the time is up. Meanwhile one of the ranks that wait for
        these keys says for whom: whom().
        """
        # Not by store.wait(): nothing could end it, and torch's TCP store logs two lines whenever
        # a wait times out.
        pause = _FIRST_LOOK_S
        lines, tells_at = 0, time.monotonic() + _TELLS_AFTER_S
        while not store.check(keys) and not deadline.has_passed:
            self.check()
            if time.monotonic() >= tells_at:
                # The first whose pause is over speaks for all: one request, however many they are.
                if store.add(f"told/{keys[-1]}/{lines}", 1) == 1 and (text := whom()):
                    _log.warning("waiting for %s, for at most %s", text, deadline)
                tells_at = time.monotonic() + _TELLS_AGAIN_AFTER_S * 2**lines
                lines += 1
            yield
            time.sleep(min(pause, deadline.left.total_seconds()))
            pause = min(2 * pause, longest_pause_s)

    def _run(self) -> None:
        looks = 0
        try:
            while not self._over.wait(_LOOKS_EVERY_S):
                if not self._lost:
                    self._look(looks)
                self._store_answered = time.monotonic()
                looks += 1
            if self._failure:
                who = f"{self._name(self._rank)}, {self._words.partition(_SEPARATOR)[0]},"
                self._lost = self._say_lost(f"{who} cannot make the group: {self._failure}")
            self._store.set(self._key(self._rank), "")  # this process may now end at any time
        except RuntimeError as error:
            # The main thread learns of the store's end by itself, but not while it waits for rank 0
            # in the extension.
            if _WAS_LOST in (why := self._why_store_failed(error)):
                self._end(why)

    def _watch_store(self) -> None:
        """Torch's calls of a store that is frozen cannot be ended, but they can be explained."""
        while not self._over.wait(_LOOKS_EVERY_S):
            silent = time.monotonic() - self._store_answered
            if silent >= _STORE_SILENT_S + _LOOKS_EVERY_S:
                _log.warning(
                    "waiting for %d s: the store in which the ranks meet does not answer; is the "
                    "process that serves it, rank 0's or the launcher's, stopped?",
                    silent,
                )
                return

    def _look(self, looks: int) -> None:
        speaks = looks % _SPEAKS_EVERY == 0
        if speaks:
            self._speak(looks)
        if self._store.check(["lost"]):
            self._end(self._store.get("lost").decode())
            return
        self._first = self._first or self._words_of(0)
        for rank in {self._nearest(1), self._nearest(-1)} - {None}:
            why = self._why_lost(rank, counts=speaks)
            # It may have made the group since, and have ended.
            if why and self._words_of(rank):
                who = self._words_of(rank).partition(_SEPARATOR)[0]
                text = f"{self._name(rank)}, {who}, {_WAS_LOST}{why}"
                self._end(self._say_lost(text))
                return

    def _say_lost(self, text: str) -> str:
        """The first that says so counts: what it said."""
        self._store.set("failed", "")  # ranks that come again use another meeting
        return self._store.compare_set("lost", "", text).decode()

    def _why_store_failed(self, error: Exception) -> str:
        who, _, rest = self._first.partition(_SEPARATOR)
        if rest and _ends(rest.partition(_SEPARATOR)[0], _ENDS_WITHIN_S):
            return (
                f"{self._name(0)}, {who}, {_WAS_LOST}its process has ended, and so has the store "
                "in which the ranks meet"
            )
        text = str(error).strip().partition("\n")[0]
        return (
            "the store in which the ranks meet has failed: the process that serves it, rank 0's "
            f"or the launcher's, has ended or cannot be reached ({text})"
        )

    def _end(self, why: str) -> None:
        self._lost = why
        if self._interruption is not None:
            self._interruption.set(why)

    def _speak(self, looks: int) -> None:
        self._store.set(self._key(self._rank), f"{self._words}{_SEPARATOR}{looks}")

    def _why_lost(self, rank: int, counts: bool) -> str:
        words = self._words_of(rank)
        if not words:
            return ""
        if _has_ended(words.split(_SEPARATOR)[1]):
            return "its process has ended"
        last, silent = self._silent.get(rank, ("", 0))
        silent = silent + counts if words == last else 0
        self._silent[rank] = (words, silent)
        if silent < _MOST_SILENT:
            return ""
        seconds = _MOST_SILENT * _SPEAKS_EVERY * _LOOKS_EVERY_S
        return f"no word from it for {seconds:g} s: its process or its host has ended, or is frozen"

    def _nearest(self, step: int) -> int | None:
        for distance in range(1, min(self._size, _REACH + 1)):
            rank = (self._rank + step * distance) % self._size
            if self._words_of(rank):
                return rank
        return None

    def _words_of(self, rank: int) -> str:
        """Empty: it has not come, or has made the group."""
        key = self._key(rank)
        return self._store.get(key).decode() if self._store.check([key]) else ""

    @staticmethod
    def _key(rank: int) -> str:
        return f"alive/{rank}"


@functools.cache
def _kernel() -> str:
    """Names this host since its last start, and the processes that are numbered together."""
    try:
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _process_mark(process: int) -> str:
    """Names a process among all of all hosts; "" if that is not possible here."""
    status = _status(process)
    return f"{_kernel()}/{process}/{status[1]}" if status and _kernel() else ""


def _is_here(mark: str) -> bool:
    """Whether the process with this mark can be seen from here."""
    return bool(_kernel()) and mark.startswith(_kernel() + "/")


def _has_ended(mark: str) -> bool:
    """Whether the process with this mark has; False if it cannot be seen from here."""
    if not _is_here(mark):
        return False
    status = _status(int(mark.split("/")[-2]))
    return status is None or status[0] in "ZX" or status[1] != mark.rpartition("/")[2]


def _ends(mark: str, within_s: float) -> bool:
    """Whether the process with this mark has ended, or does so soon."""
    end = time.monotonic() + within_s
    while not (ended := _has_ended(mark)) and _is_here(mark) and time.monotonic() < end:
        time.sleep(0.01)
    return ended


def _status(process: int) -> tuple[str, str] | None:
    """Its state and when it was started; None: there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{process}/stat").read_text()
    except OSError:
        return None
    fields = text.rpartition(") ")[2].split()  # the name before may contain anything
    return fields[0], fields[19]
