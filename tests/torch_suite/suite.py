"""torch's own tests of a backend, torch.testing._internal.distributed.distributed_test, over atp.

The tests ask for a backend by its name, when they are imported and in their bodies, and run what is
meant for Gloo. So they are imported under Gloo's name, and know the backend afterwards by a name
that equals "gloo" too. What makes the groups gets the real one: with atp nothing runs over Gloo.

Each test has processes of its own. Those are forked by a server that has imported torch and this
module once, which saves three seconds per rank and test.
"""

import os
import sys

BACKEND = os.environ["ATP_SUITE_BACKEND"]

os.environ["BACKEND"] = "gloo"
if BACKEND == "atp":
    import atp.torch  # noqa: F401 (registers the backend)

import torch.multiprocessing  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402


class _Name(str):
    """The backend's own name, which the tests' bodies also accept as Gloo's."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return str.__eq__(self, other) or other == "gloo"

    def __ne__(self, other):
        return not self == other


os.environ["BACKEND"] = BACKEND
distributed_test.BACKEND = _Name(BACKEND)


class Suite(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self):
        super().setUp()
        self._start_processes(_forked)

    # The server keeps the environment that it was started with, and a test's folders are in it.
    def _start_processes(self, proc):
        def start(*, kwargs, **rest):
            return proc(kwargs={**kwargs, "environment": dict(os.environ)}, **rest)

        super()._start_processes(start)

    @classmethod
    def _run(cls, rank, test_name, file_name, pipe, *, environment, **kwargs):
        os.environ.clear()
        os.environ.update(environment)
        distributed_test.INIT_METHOD = os.environ["INIT_METHOD"]
        # What a test prints belongs to its own report, and would bury this one's.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        super()._run(rank, test_name, file_name, pipe, **kwargs)


_server = torch.multiprocessing.get_context("forkserver")
_server.set_forkserver_preload([__name__])
_forked = _server.Process
