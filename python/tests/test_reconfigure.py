"""Groups whose ranks change: torch.distributed._reconfigure, which torch has from 2.14 on."""

import datetime
import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ErrorType
from torch.distributed.distributed_c10d import _get_default_store

import atp.torch

from .network import PROGRAM
from .test_get_error import get_error
from .ways import WAYS, options_of

pytestmark = pytest.mark.needs_torch("2.14")

PYTHON = pathlib.Path(__file__).resolve().parents[1]
EXAMPLE = PYTHON.parent / "examples/03_elastic_ddp.py"
RECONFIGURABLE = {"enable_reconfigure": True}


def handles_of(rank, size):
    """Those of all ranks, by rank, exchanged through the store."""
    store = _get_default_store()
    store.set(f"handle/{rank}", dist._get_reconfigure_handle())
    return [store.get(f"handle/{rank}").decode() for rank in range(size)]


def total():
    """The all-reduce of 1 from every rank."""
    tensor = torch.ones(1000)
    dist.all_reduce(tensor)
    return tensor[-1].item()


def run(ranks, size, body, *, way="memory", **options):
    """Runs body(rank, handles of all ranks) in a group that has no ranks yet."""

    def with_handles(rank):
        return body(rank, handles_of(rank, size))

    return ranks.outcomes(
        size,
        with_handles,
        memory=way == "memory",
        pg_options=options_of(way),
        init=RECONFIGURABLE,
        **options,
    )


@pytest.mark.parametrize("way", WAYS)
def test_the_others_go_on_without_a_killed_rank(ranks, way):
    def body(rank, handles):
        assert get_error() == ErrorType.SUCCESS
        dist._reconfigure(1, handles).wait()
        sums = [(dist.get_world_size(), dist.get_rank(), total())]
        if rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        with pytest.raises(dist.DistBackendError, match="rank 1"):
            for _ in range(100):
                total()
        assert get_error() in (ErrorType.COMM_ERROR, ErrorType.REMOTE_ERROR)
        dist._reconfigure(2, [handles[0], handles[2]]).wait()
        assert get_error() == ErrorType.SUCCESS
        sums.append((dist.get_world_size(), dist.get_rank(), total()))
        assert atp.torch.stats()["algorithm"] in ("innetwork", "ring")
        return sums

    for outcome in run(ranks, 3, body, way=way, waited_for=[0, 2]):
        assert outcome.error is None, outcome.trace
        assert outcome.value == [(3, outcome.rank, 3.0), (2, outcome.rank // 2, 2.0)]


def test_a_set_of_handles_gives_every_rank_a_number_of_its_own(ranks):
    def body(rank, handles):
        dist._reconfigure(1, set(handles)).wait()
        return dist.get_rank(), total()

    outcomes = run(ranks, 3, body)
    assert all(outcome.error is None for outcome in outcomes), outcomes
    assert sorted(outcome.value for outcome in outcomes) == [(0, 3.0), (1, 3.0), (2, 3.0)]


def test_a_group_without_ranks_says_what_to_call(ranks):
    def body(rank, handles):
        with pytest.raises(dist.DistBackendError, match="no ranks yet.*_reconfigure"):
            total()
        with pytest.raises(dist.DistBackendError, match="no ranks yet"):
            atp.torch.stats()

    (outcome,) = run(ranks, 1, body)
    assert outcome.error is None, outcome.trace


def test_wrong_handles_and_used_uuids_are_refused(ranks):
    def body(rank, handles):
        with pytest.raises(ValueError, match="handle is not among the 1"):
            dist._reconfigure(1, ["another"])
        with pytest.raises(ValueError, match="given twice"):
            dist._reconfigure(1, [handles[0], handles[0]])
        dist._reconfigure(1, handles).wait()
        with pytest.raises(RuntimeError, match="uuid 1 was already used"):
            dist._reconfigure(1, handles)
        return total()

    (outcome,) = run(ranks, 1, body)
    assert outcome.error is None, outcome.trace
    assert outcome.value == 1.0


def test_after_a_reconfigure_that_a_rank_missed_another_one_works(ranks):
    def body(rank, handles):
        if rank == 0:
            with pytest.raises(dist.DistStoreError, match="rank 1 .* did not join within 0.5 s"):
                dist._reconfigure(1, handles, timeout=datetime.timedelta(seconds=0.5))
            with pytest.raises(dist.DistBackendError, match="last reconfigure failed"):
                total()
        dist._reconfigure(2, handles).wait()
        return total()

    for outcome in run(ranks, 2, body):
        assert outcome.error is None, outcome.trace
        assert outcome.value == 2.0


def test_the_example_trains_on_without_a_rank_as_one_process_does():
    done = subprocess.run(
        [PROGRAM, "run", "-n", "3", "--grace", "60", "--", sys.executable, EXAMPLE],
        env={**os.environ, "PYTHONPATH": str(PYTHON), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
    )
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(10):
        inputs = torch.randn(8, 20, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        model(inputs).pow(2).mean().backward()
        optimizer.step()
    expected = model.weight.double().sum().item()
    ended = dict(re.findall(r"process \d: rank (\d of \d), (-?\d+\.\d+)", done.stdout))
    assert set(ended) == {"0 of 2", "1 of 2"}, done.stdout + done.stderr
    assert [float(weights) for weights in ended.values()] == pytest.approx([expected] * 2, rel=1e-4)


def test_a_group_of_fixed_ranks_says_how_to_make_one_that_changes(ranks):
    def body(rank):
        assert not dist._supports_reconfigure()
        with pytest.raises(RuntimeError, match="enable_reconfigure=True"):
            dist._reconfigure(1, ["handle"])

    ranks.run(1, body)


def test_the_options_of_a_group_say_that_it_changes(ranks):
    def body(rank, handles):
        options = dist.group.WORLD._get_backend(torch.device("cpu")).options
        return options.enable_reconfigure, type(options) is atp._C.GroupOptions

    assert [outcome.value for outcome in run(ranks, 1, body)] == [(True, True)]
