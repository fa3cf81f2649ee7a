"""A rank's watch over the others while a group is made, over a store in this process."""

import logging
import subprocess
import threading
import time

import torch.distributed as dist

from atp.torch._watch import _SEPARATOR, Watch, _process_mark


class FrozenStore:
    """A store that answers until it is frozen, and again once it has thawed."""

    def __init__(self):
        self._store = dist.HashStore()
        self.answers = threading.Event()
        self.answers.set()

    def __getattr__(self, name):
        def call(*arguments):
            assert self.answers.wait(20)
            return getattr(self._store, name)(*arguments)

        return call


def test_a_frozen_store_is_reported_once(caplog):
    store = FrozenStore()
    with caplog.at_level(logging.WARNING, "atp.torch"), Watch() as watch:
        watch.begin(store, 0, 2, lambda rank: f"rank {rank}", "this process")
        time.sleep(0.5)
        assert caplog.messages == []
        store.answers.clear()
        time.sleep(2.5)
        store.answers.set()
    assert len(caplog.messages) == 1, caplog.messages
    assert "the store in which the ranks meet does not answer" in caplog.messages[0]


def test_a_process_that_serves_the_store_ends_a_moment_after_the_store():
    # As at a kill: the kernel closes its sockets before it says that the process has ended.
    with subprocess.Popen(["sleep", "60"]) as serves:
        watch = Watch()
        watch._first = _SEPARATOR.join(["this host", _process_mark(serves.pid), "0"])
        watch._name = lambda rank: f"rank {rank}"
        failed = RuntimeError("Connection reset by peer")
        assert "the store in which the ranks meet has failed" in watch._why_store_failed(failed)
        threading.Timer(0.2, serves.kill).start()
        assert "rank 0, this host, was lost" in watch._why_store_failed(failed)
