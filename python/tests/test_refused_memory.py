"""algorithm="auto" on one host where shared memory is refused: all ranks take another way."""

import ctypes
import logging
import os
import platform
import resource

import pytest
import torch
import torch.distributed as dist

import atp.torch
from atp.torch import Options

AUTO = Options(algorithm="auto")
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" and not os.environ.get("ATP_ALL_TESTS"),
    reason="the numbers of system calls below are x86-64's: run this on such a machine",
)
_MEMFD_CREATE, _FCNTL = 319, 72
_F_OFD_SETLK = 37
_PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP, _MODE_FILTER = 38, 22, 2
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000 | 1  # EPERM
_LOAD, _IF_EQUAL, _RETURN = 0x20, 0x15, 0x06


def forbid(number, second_argument=None):
    """As a sandbox does, with a filter of system calls."""
    steps = [(_LOAD, 0, 0, 0), (_IF_EQUAL, 0, 0, number)]
    if second_argument is not None:
        steps += [(_LOAD, 0, 0, 24), (_IF_EQUAL, 0, 0, second_argument)]
    steps += [(_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
    steps = [  # a comparison that fails leads to the last step
        (code, yes, len(steps) - 2 - at if code == _IF_EQUAL else no, value)
        for at, (code, yes, no, value) in enumerate(steps)
    ]

    class Step(ctypes.Structure):
        _fields_ = [
            ("code", ctypes.c_uint16),
            ("yes", ctypes.c_uint8),
            ("no", ctypes.c_uint8),
            ("value", ctypes.c_uint32),
        ]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_uint16), ("steps", ctypes.POINTER(Step))]

    program = Program(len(steps), (Step * len(steps))(*(Step(*step) for step in steps)))
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    refused = libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.byref(program))
    assert refused == 0, ctypes.get_errno()


def limit_files():
    resource.setrlimit(resource.RLIMIT_FSIZE, (512_000, resource.RLIM_INFINITY))


REFUSALS = {
    "files are limited": (limit_files, {0, 1, 2}, "File too large"),
    "files are limited for one rank": (limit_files, {0}, "File too large"),
    "a sandbox knows no memfd_create": (lambda: forbid(_MEMFD_CREATE), {0, 1, 2}, "memfd_create"),
    "it knows none on one rank": (lambda: forbid(_MEMFD_CREATE), {0}, "memfd_create"),
    "a sandbox knows no OFD locks": (lambda: forbid(_FCNTL, _F_OFD_SETLK), {0, 1, 2}, "lock"),
    "it knows none on the first rank": (lambda: forbid(_FCNTL, _F_OFD_SETLK), {0}, "lock"),
    "it knows none on the last rank": (lambda: forbid(_FCNTL, _F_OFD_SETLK), {2}, "lock"),
}


@pytest.mark.parametrize("route", ["no route", "a route"])
@pytest.mark.parametrize(("refuse", "whom", "why"), REFUSALS.values(), ids=REFUSALS)
def test_all_ranks_take_another_way_if_one_is_refused(ranks, refuse, whom, why, route):
    def body(rank):
        said = []
        handler = logging.Handler()
        handler.emit = lambda record: said.append(record.getMessage())
        logging.getLogger("atp.torch").addHandler(handler)
        if rank in whom:
            refuse()
        group = dist.new_group(pg_options=AUTO)
        tensor = torch.full((3000,), float(rank))
        dist.all_reduce(tensor, group=group)
        assert tensor.eq(3).all()
        stats = atp.torch.stats(group)
        return stats["host_memory"], stats["choice"]["reason"], " ".join(said)

    options = {"memory": True} | ({"route": ""} if route == "no route" else {})
    found = ranks.run(3, body, **options)
    assert {in_memory for in_memory, _, _ in found} == {False}
    assert len({reason for _, reason, _ in found}) == 1
    assert ("over a ring" if route == "no route" else "measured") in found[0][1]
    assert "all ranks are on one host, but cannot sum in its memory: " in found[0][2]
    assert why in found[0][2] and "set ATP_ROUTE" not in found[0][2]
    assert [text for _, _, text in found[1:]] == ["", ""], "one rank speaks for all"


def test_without_any_way_the_error_names_all_that_were_tried(ranks):
    def body(rank):
        limit_files()
        # No port is left for the ring.
        monkey = atp.torch._backend.Peers.connect

        def refuse(*_, **__):
            raise RuntimeError("made up")

        atp.torch._backend.Peers.connect = refuse
        try:
            with pytest.raises(dist.DistBackendError) as error:
                dist.new_group(pg_options=AUTO)
        finally:
            atp.torch._backend.Peers.connect = monkey
        return str(error.value)

    for text in ranks.run(2, body, memory=True, route=""):
        assert "neither in the host's memory (" in text and "File too large" in text
        assert "nor in the network (no route to a server was given" in text
        assert "nor over a ring (rank 0: made up)" in text
        assert "set ATP_SOCKET_IFNAME on that rank's host" in text
