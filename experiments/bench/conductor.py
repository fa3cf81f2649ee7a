"""Tells all ranks of all programs what to do, so that they take turns and start simultaneously.

The ranks are in other network namespaces but share this machine's file system and clock: each
connects to a Unix socket, and an all-reduce starts at the same value of CLOCK_MONOTONIC on all
ranks. So no measured time includes a barrier.

    rank:       hello KIND JOB RANK
    conductor:  prepare WAY BYTES ITERATIONS     rank:  ready
    conductor:  go NANOSECONDS                   rank:  done NANOSECONDS
    conductor:  end
"""

import os
import select
import socket
import time

# Enough for every rank to be asleep again before the start.
LEAD_S = 0.02


class RankFailed(SystemExit):
    pass


class Conductor:
    def __init__(self, path, check):
        """`check` is called during waits, and raises if a process has ended."""
        self.path = path
        self._check = check
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(path))
        self._listening.listen(256)
        self._connections = []
        self._ranks = {}  # (kind, job, rank): the file to read its messages from

    def wait_for(self, kind, count, seconds):
        """Waits until this many ranks of a kind have said hello."""
        end = time.monotonic() + seconds
        while sum(key[0] == kind for key in self._ranks) < count:
            self._wait(self._listening, end, f"{count} ranks of {kind} did not connect")
            connection, _ = self._listening.accept()
            file = connection.makefile("r", encoding="ascii", newline="\n")
            self._connections.append(connection)
            self._ranks[tuple(self._line(file, end).split()[1:])] = file

    def turn(self, way, kind, size, iterations, seconds):
        """Seconds from the common start until the last rank of the slowest job was done."""
        ranks = [file for key, file in self._ranks.items() if key[0] == kind]
        end = time.monotonic() + seconds
        self._tell(ranks, f"prepare {way.replace(' ', '_')} {size} {iterations}")
        for file in ranks:
            self._expect(file, "ready", end)
        begin = time.monotonic_ns() + int(LEAD_S * 1e9)
        self._tell(ranks, f"go {begin}")
        done = [int(self._expect(file, "done", end)) for file in ranks]
        return (max(done) - begin) / 1e9

    def end(self):
        self._tell(self._ranks.values(), "end")

    def _tell(self, ranks, line):
        for file in ranks:
            try:
                os.write(file.fileno(), f"{line}\n".encode())
            except OSError:
                self._fail_because_one_ended()

    def _expect(self, file, word, end):
        line = self._line(file, end)
        if not line.startswith(word):
            raise RankFailed(f"bench: found '{line}' from a rank, expected '{word}'")
        return line.removeprefix(word).strip()

    def _line(self, file, end):
        self._wait(file, end, "a rank did not answer")
        line = file.readline()
        if not line:
            self._fail_because_one_ended()
        return line.strip()

    def _fail_because_one_ended(self):
        time.sleep(0.5)  # its exit code follows
        self._check()
        raise RankFailed("bench: a rank has closed its connection")

    def _wait(self, file, end, problem):
        while not select.select([file], [], [], 0.2)[0]:
            self._check()
            if time.monotonic() > end:
                raise RankFailed(f"bench: {problem} in time")
