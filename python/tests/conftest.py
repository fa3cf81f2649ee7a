"""Runs test bodies as the ranks of a real group: one process each, over a real switch and server.

Ranks are forked from the test process, which has imported torch but started no thread. So a rank
costs milliseconds, and a body can be any function, even one defined in a test.
"""

import collections
import contextlib
import dataclasses
import datetime
import multiprocessing
import os
import pathlib
import pickle
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo  # noqa: F401 (DDP imports it, which takes seconds: once here, not per rank)
import torch.distributed as dist

import atp.torch  # noqa: F401 (registers the backend)

from .network import Network

# A thread pool in the test process would be lost in its forks.
torch.set_num_threads(1)

_SERIES = ".".join(torch.__version__.split(".")[:2])
# The tests that this torch is too old for; the run ends with a line that names them.
_too_new: set[str] = set()

_fork = multiprocessing.get_context("fork")


@dataclasses.dataclass
class Outcome:
    """How one rank ended: with a value, with an exception, or killed (both None)."""

    rank: int
    value: Any = None
    error: str | None = None  # "ExceptionType: text"
    trace: str = ""
    seconds: float = 0.0
    exit_code: int | None = None


class Ranks:
    """Starts the ranks of a group, and collects how they ended."""

    def __init__(self, folder: pathlib.Path, route: str):
        self._folder = folder
        self._route = route
        self._runs = 0

    def run(self, size: int, body: Callable[[int], Any], **options) -> list[Any]:
        """The values that body(rank) returned; a failure of any rank fails the test."""
        outcomes = self.outcomes(size, body, **options)
        failed = [o for o in outcomes if o.error or o.exit_code != 0]
        if failed:
            report = "\n".join(f"rank {o.rank}, exit {o.exit_code}: {o.trace}" for o in failed)
            pytest.fail(report, pytrace=False)
        return [o.value for o in outcomes]

    def outcomes(
        self,
        size: int,
        body: Callable[[int], Any],
        *,
        started: list[int] | None = None,
        waited_for: list[int] | None = None,
        route: str | None = None,
        memory: bool = False,
        backend: str = "atp",
        timeout_s: float = 20,
        limit_s: float = 240,
        pg_options=None,
        init: dict[str, Any] | None = None,
        variables: Callable[[int], dict[str, str]] | None = None,
    ) -> list[Outcome]:
        """Starts these ranks (default: each once) and waits for those that should end.

        The others are killed afterwards. Fails the test if a rank takes longer than limit_s.
        `init`: further arguments of init_process_group(); `variables(rank)`: a rank's environment.
        """
        self._runs += 1
        store = self._folder / f"store{self._runs}"
        started = list(range(size)) if started is None else started
        group = {
            "backend": backend,
            "init_method": f"file://{store}",
            "world_size": size,
            "timeout": datetime.timedelta(seconds=timeout_s),
            "pg_options": pg_options,
            **(init or {}),
        }
        # By default tests use the network; tests of the host's memory set `memory`, and those of
        # other algorithms say so in their options.
        environment = {
            "ATP_ALGORITHM": os.environ.get("ATP_ALGORITHM", "innetwork"),
            "ATP_ROUTE": self._route if route is None else route,
            "ATP_HOST_MEMORY": "1" if memory else "0",
        }
        connected = _fork.Barrier(len(started))
        workers = []
        for rank in started:
            receiver, sender = _fork.Pipe(duplex=False)
            own = {**environment, **(variables(rank) if variables else {})}
            process = _fork.Process(
                target=_rank_main,
                args=(rank, body, group, own, connected, sender),
                daemon=True,
            )
            process.start()
            sender.close()
            workers.append((rank, process, receiver))
        deadline = time.monotonic() + limit_s
        try:
            return [
                _outcome(rank, process, receiver, deadline)
                for rank, process, receiver in workers
                if waited_for is None or rank in waited_for
            ]
        finally:
            for _, process, _ in workers:
                process.kill()
                process.join()


def _init_group(rank, group, connected) -> None:
    """Keeps a rank whose body ends at once alive while the others still connect to it."""
    try:
        dist.init_process_group(rank=rank, **group)
    except BaseException:
        connected.abort()
        raise
    with contextlib.suppress(threading.BrokenBarrierError):  # a rank failed to connect
        connected.wait(group["timeout"].total_seconds())


def _rank_main(rank, body, group, environment, connected, sender) -> None:
    # First: torch's own threads would otherwise race for the thread pool, which the parent had.
    torch.set_num_threads(1)
    begin = time.monotonic()
    os.environ.update(environment)
    outcome = Outcome(rank)
    try:
        _init_group(rank, group, connected)
        outcome.value = body(rank)
    except BaseException as error:
        outcome.error = f"{type(error).__name__}: {error}"
        outcome.trace = traceback.format_exc()
    outcome.seconds = time.monotonic() - begin
    # Plain pickling: multiprocessing's own would send tensors as files of a process that ends.
    sender.send_bytes(pickle.dumps(outcome))
    try:
        if dist.is_initialized():
            dist.destroy_process_group()
    except Exception:
        outcome.trace += traceback.format_exc()


def _outcome(rank, process, receiver, deadline) -> Outcome:
    outcome = Outcome(rank)
    try:
        if not receiver.poll(max(0.0, deadline - time.monotonic())):
            pytest.fail(f"rank {rank} is still running at the time limit", pytrace=False)
        outcome = pickle.loads(receiver.recv_bytes())
    except EOFError:
        pass  # it was killed before it could report anything
    process.join(max(0.0, deadline - time.monotonic()))
    if process.exitcode is None:
        pytest.fail(f"rank {rank} does not end: destroy_process_group() hangs", pytrace=False)
    outcome.exit_code = process.exitcode
    return outcome


def pytest_collection_modifyitems(config, items) -> None:
    """Leaves out what this torch is too old for: @pytest.mark.needs_torch("2.14")."""
    left_out = [item for item in items if _needs(item) > _number(_SERIES)]
    _too_new.update(item.nodeid for item in left_out)
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


def _needs(item) -> tuple[int, ...]:
    mark = item.get_closest_marker("needs_torch")
    return _number(mark.args[0]) if mark else ()


def _number(series: str) -> tuple[int, ...]:
    return tuple(map(int, series.split(".")))


def pytest_sessionfinish(session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of pytest -n
        session.config.workeroutput["too_new"] = sorted(_too_new)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node) -> None:
    _too_new.update(getattr(node, "workeroutput", {}).get("too_new", ()))


def pytest_terminal_summary(terminalreporter) -> None:
    if not _too_new:
        return
    names = collections.Counter(
        test.rpartition("/")[2].partition("[")[0] for test in sorted(_too_new)
    )
    told = ", ".join(f"{name} ({n})" if n > 1 else name for name, n in names.items())
    terminalreporter.write_line(f"not run on torch {_SERIES}: {len(_too_new)} tests: {told}")


@pytest.fixture(scope="session")
def network():
    """A switch and a server that all tests share, except those that break one."""
    with Network() as network:
        yield network


@pytest.fixture
def ranks(network, tmp_path) -> Ranks:
    return Ranks(tmp_path, network.route)
