"""The packets of a stranger who knows only docs/inside/protocol: no member's address and no JOIN's
nonce."""

import os
import random
import selectors
import socket
import struct
import threading
import time

from experiments.defence.packets import (
    DIRECT,
    gradient,
    is_prove,
    join,
    leave,
    proof_in,
    with_proof,
)


class Stranger:
    """A socket on an address that no honest process of these measurements uses."""

    def __init__(self, address="127.0.0.2"):
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind((address, 0))
        self.udp.setblocking(False)
        self.sent_packets = self.sent_bytes = 0
        self.answers = self.answered_bytes = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.udp.close()

    def send(self, packet, to):
        try:
            self.udp.sendto(packet, to)
        except BlockingIOError:
            return
        self.sent_packets += 1
        self.sent_bytes += len(packet)

    def hear(self):
        """All answers so far."""
        found = []
        while True:
            try:
                found.append(self.udp.recv(65535))
            except BlockingIOError:
                return found
            self.answers += 1
            self.answered_bytes += len(found[-1])

    def asked(self, seconds):
        """The proof that a node wants to see in its JOIN; None if none asks in this time."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for answer in self.hear():
                if is_prove(answer):
                    return proof_in(answer)
            time.sleep(0.001)
        return None

    def join(self, packet, to):
        """Sends a JOIN, and again with the proof that the node asks for."""
        self.send(packet, to)
        proof = self.asked(0.2)
        if proof is not None:
            self.send(with_proof(packet, proof), to)


class Asker(Stranger):
    """An honest client: at intervals it asks about an unknown job, independent of earlier
    questions, and repeats each question until it is answered."""

    EVERY_S = 0.02
    AGAIN_S = 0.01  # the minimum time between two answers of a kind to one endpoint

    def __init__(self, address, to):
        super().__init__(address)
        self._to = to
        self._due = time.monotonic()
        self._open = {}  # by job: when it was asked first and last
        self.waits = []  # seconds per answer
        self.at_once = 0  # how many were answers to the first packet

    def step(self):
        self._hear_answers()
        now = time.monotonic()
        while self._due <= now:
            self._ask(random.randrange(1, 2**32), now)
            self._due += self.EVERY_S
        self.ask_again(now)

    def ask_again(self, now):
        for job, (_, last) in self._open.items():
            if last + self.AGAIN_S <= now:
                self._ask(job, now)

    def finish(self, limit_s):
        """Asks no new questions, but waits for the pending answers."""
        end = time.monotonic() + limit_s
        while self._open:
            if time.monotonic() > end:
                raise SystemExit(f"{len(self._open)} questions are not answered after {limit_s} s")
            self._hear_answers()
            self.ask_again(time.monotonic())
            time.sleep(0.001)

    def _ask(self, job, now):
        first, _ = self._open.get(job, (now, now))
        self._open[job] = (first, now)
        self.send(gradient(job), self._to)

    def _hear_answers(self):
        while True:
            try:
                answer = self.udp.recv(65535)
            except BlockingIOError:
                return
            job = struct.unpack_from(">I", answer, 4)[0]
            if job in self._open:
                first, last = self._open.pop(job)
                self.waits.append(time.monotonic() - first)
                self.at_once += first == last


class Meanwhile:
    """Does what _run() does, in a thread, until the end of the `with` block sets _over."""

    def __init__(self):
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


class Churn(Meanwhile):
    """Creates and leaves one-rank jobs of maximum size at this many bytes per second."""

    def __init__(self, server, bytes_per_s):
        super().__init__()
        self._server, self._rate = server, bytes_per_s

    def _run(self):
        with Stranger() as stranger:
            begin = time.monotonic()
            while not self._over.is_set():
                job, nonce = random.randrange(1, 2**32), int.from_bytes(os.urandom(8), "big")
                large = join(job, nonce, [self._server], flags=DIRECT, streams=8, values=2226)
                stranger.join(large, self._server)
                stranger.send(leave(job, nonce), self._server)
                stranger.hear()
                due = begin + stranger.sent_bytes / self._rate
                self._over.wait(max(0, due - time.monotonic()))


def open_stream(view):
    stream = socket.create_connection(view, 10)
    stream.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return stream


class Readers(Meanwhile):
    """Keeps this many streams of `atp view` open and reads them. A stream that ends is opened again
    at once."""

    def __init__(self, view, streams):
        super().__init__()
        self._view, self._selector = view, selectors.DefaultSelector()
        for _ in range(streams):
            self._open()

    def __exit__(self, *_):
        super().__exit__()
        for key in self._selector.get_map().values():
            key.fileobj.close()

    def _open(self):
        self._selector.register(open_stream(self._view), selectors.EVENT_READ)

    def _run(self):
        while not self._over.is_set():
            for key, _ in self._selector.select(0.1):
                try:
                    if key.fileobj.recv(65536):
                        continue
                except ConnectionError:
                    pass
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
                self._open()
