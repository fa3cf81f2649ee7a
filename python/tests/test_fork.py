"""A process that is forked after its groups were made gets errors, and disturbs no rank."""

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import traceback

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType

from lab.ports import free_port

from .test_get_error import get_error
from .ways import WAYS, environment_of, options_of

on_all = pytest.mark.parametrize("way", WAYS)


def in_child(body, limit_s=20) -> str:
    """The body's error or result in a forked child, which then ends like any program."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # pytest uses it for itself
        signal.alarm(limit_s)
        try:
            text = repr(body())
        except BaseException:
            text = traceback.format_exc()
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    text = b""
    while part := os.read(reader, 65536):
        text += part
    os.close(reader)
    assert os.waitpid(child, 0)[1] == 0, f"the child was stopped after {limit_s} s: {text}"
    return text.decode()


def total():
    tensor = torch.ones(100)
    dist.all_reduce(tensor)
    return tensor[0].item()


@on_all
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "with operations in flight"])
def test_every_collective_of_a_child_says_what_to_do_at_once(ranks, way, busy):
    tensor = torch.ones(4)
    integers = torch.ones(4, dtype=torch.int64)
    both = [torch.ones(4), torch.ones(4)]
    calls = [
        lambda: dist.all_reduce(tensor),
        lambda: dist.all_reduce(integers, op=dist.ReduceOp.AVG),
        lambda: dist.all_reduce_coalesced(both),
        lambda: dist.reduce(tensor, 0),
        lambda: dist.broadcast(tensor, 0),
        lambda: dist.all_gather(both, tensor),
        lambda: dist.all_gather_single(torch.ones(8), tensor),
        lambda: dist.gather(tensor, both if dist.get_rank() == 0 else None, 0),
        lambda: dist.scatter(tensor, both if dist.get_rank() == 0 else None, 0),
        lambda: dist.reduce_scatter(tensor, both),
        lambda: dist.reduce_scatter_single(torch.ones(2), tensor),
        lambda: dist.all_to_all(both, both),
        lambda: dist.all_to_all_single(torch.ones(4), tensor),
        lambda: dist.send(tensor, 1 - dist.get_rank()),
        lambda: dist.recv(tensor, 1 - dist.get_rank()),
        lambda: dist.barrier(),
        lambda: dist.barrier(async_op=True),
    ]

    def body(rank):
        works = []
        if busy and rank == 0:
            works = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(20)]

        def child():
            missed = []
            for number, call in enumerate(calls):
                try:
                    call()
                    missed.append(f"call {number} passed")
                except dist.DistBackendError as error:
                    if "forked after the process group was created" not in str(error):
                        missed.append(f"call {number}: {error}")
            for work in works[-1:]:
                try:
                    work.wait()
                    missed.append("waiting passed")
                except dist.DistBackendError as error:
                    if "only the parent can wait" not in str(error):
                        missed.append(str(error))
            return missed

        said = in_child(child)
        if busy and rank == 1:
            works = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(20)]
        for work in works:
            work.wait()
        return said, total()

    assert ranks.run(2, body, pg_options=options_of(way)) == [("[]", 2.0)] * 2


@on_all
def test_a_child_may_leave_the_groups_and_make_its_own(ranks, way, tmp_path):
    def body(rank):
        dist.new_group([0, 1])

        def child():
            dist.destroy_process_group()
            dist.init_process_group(
                "atp",
                init_method=f"file://{tmp_path}/children",
                rank=rank,
                world_size=2,
                pg_options=options_of(way),
            )
            sum_of_children = total()
            dist.destroy_process_group()
            return sum_of_children

        return in_child(child), total()

    assert ranks.run(2, body, pg_options=options_of(way)) == [("2.0", 2.0)] * 2


@on_all
def test_a_child_has_a_communication_error_and_its_parent_none(ranks, way):
    def body(rank):
        said = in_child(lambda: get_error() == ErrorType.COMM_ERROR)
        return said, get_error() == ErrorType.SUCCESS, total()

    assert ranks.run(2, body, pg_options=options_of(way)) == [("True", True, 2.0)] * 2


PROGRAM = """
import os, sys, torch, torch.distributed as dist, atp.torch
rank, ending = int(os.environ["RANK"]), sys.argv[1]
dist.init_process_group("atp")
group = dist.new_group([0, 1])
def total(group=None):
    tensor = torch.ones(1000)
    dist.all_reduce(tensor, group=group)
    assert tensor[-1] == 2
total(), total(group)
pending = [dist.all_reduce(torch.ones(100_000), async_op=True) for _ in range(10)]
child = os.fork()
if child == 0:
    if ending == "destroys":
        dist.destroy_process_group()
    elif ending == "drops":
        del group, pending
    sys.exit(7)
status = os.waitpid(child, 0)[1]
assert os.waitstatus_to_exitcode(status) == 7, f"the child ended with {status}"
for work in pending:
    work.wait()
total(), total(group)
dist.destroy_process_group()
"""


@on_all
@pytest.mark.parametrize("ending", ["exits", "drops", "destroys"])
def test_a_child_may_end_like_any_program_and_the_parents_continue(network, way, ending):
    with_torchruns_store = subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
            "--no-python", sys.executable, "-c", PROGRAM, ending,
        ],
        env={**os.environ, **environment_of(way), "ATP_ROUTE": network.route},
        capture_output=True,
        text=True,
        timeout=120,
    )  # fmt: skip
    assert with_torchruns_store.returncode == 0, with_torchruns_store.stderr


@on_all
def test_a_child_may_end_in_the_process_that_holds_the_store(network, way, tmp_path):
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "2"}
    logs = [tmp_path / f"rank{rank}.log" for rank in range(2)]
    processes = []
    for rank, log in enumerate(logs):
        with log.open("w") as stderr:
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-X", "faulthandler", "-c", PROGRAM, "destroys"],
                    env={
                        **os.environ,
                        **address,
                        "RANK": str(rank),
                        **environment_of(way),
                        "ATP_ROUTE": network.route,
                    },
                    stderr=stderr,
                    start_new_session=True,
                )
            )
    deadline = time.monotonic() + 120
    exits = []
    try:
        for process in processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0, deadline - time.monotonic()))
            exits.append(process.poll())
    finally:
        for process in processes:  # and its child; either leaves its stacks in the log
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGABRT)
            process.wait()
    # Show both logs, as a rank that waits cannot say why the other one ended.
    assert exits == [0, 0], "\n".join(f"rank {r}:\n{log.read_text()}" for r, log in enumerate(logs))


@pytest.mark.parametrize("way", ["memory", "ring"])
def test_a_living_child_does_not_hide_that_its_parent_was_killed(ranks, way):
    def body(rank):
        total()
        if rank == 1:
            if os.fork() == 0:
                time.sleep(30)
                os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
        total()

    outcomes = ranks.outcomes(2, body, waited_for=[0], pg_options=options_of(way))
    assert "its process has ended" in outcomes[0].error
    assert outcomes[0].seconds < 25


@on_all
def test_forked_data_loaders_work_during_collectives(ranks, way):
    def body(rank):
        class Numbers(torch.utils.data.Dataset):
            def __len__(self):
                return 40

            def __getitem__(self, index):
                return torch.tensor([float(index)])

        # The processes of these tests may not have children; real programs may.
        multiprocessing.current_process()._config["daemon"] = False
        loader = torch.utils.data.DataLoader(
            Numbers(), batch_size=4, num_workers=2, multiprocessing_context="fork"
        )
        sums = 0.0
        for _ in range(2):
            for batch in loader:
                result = batch.sum()
                dist.all_reduce(result)
                sums += result.item()
        return sums

    assert ranks.run(2, body, pg_options=options_of(way)) == [4.0 * sum(range(40))] * 2
