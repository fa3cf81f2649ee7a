"""How a program ends: with or without destroy_process_group(), whatever is still in progress."""

import json
import os
import signal
import subprocess
import sys

import pytest
import torch

from .network import PROGRAM, Network
from .ways import environment_of

PROLOGUE = """
import sys, torch, torch.distributed as dist, atp.torch
rank = int(sys.argv[2])
dist.init_process_group("atp", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
dist.all_reduce(torch.ones(100))
"""

ENDINGS = {
    "destroyed": "dist.destroy_process_group()",
    "not destroyed": "pass",
    "an operation pending": "if rank == 0: work = dist.all_reduce(torch.ones(100), async_op=True)",
    "a callback pending": """
if rank == 0:
    future = dist.all_reduce(torch.ones(100), async_op=True).get_future()
    future = future.then(lambda f: print("called"))
""",
    "the group dropped by a callback": """
import threading, time
group = dist.new_group()
begun = threading.Event()
def callback(future, group=group):
    begun.set()
    dist.destroy_process_group(group)
    time.sleep(1)
done = dist.all_reduce(torch.ones(100), group=group, async_op=True).get_future().then(callback)
del group, callback
begun.wait()
""",
    # torch splits only the group of an accelerator; it need not exist. The split ends at once.
    "a split destroyed": """
import gc, os, time
before = len(os.listdir("/proc/self/task"))
torch.accelerator.is_available = lambda: True
torch.accelerator.current_accelerator = lambda: torch.device("cpu")
dist.group.WORLD.bound_device_id = torch.device("cuda", 0)
half = dist.split_group(split_ranks=[[0, 1]])
dist.all_reduce(torch.ones(4), group=half)
dist.destroy_process_group(half)
del half
gc.collect()
end = time.monotonic() + 20
while len(os.listdir("/proc/self/task")) > before:  # it lists a joined thread for a moment longer
    assert time.monotonic() < end
    time.sleep(0.02)
""",
}


CASES = [(way, ending) for way in ("innetwork", "memory") for ending in ENDINGS]
CASES += [
    ("ring", ending)
    for ending in ("a callback pending", "the group dropped by a callback", "a split destroyed")
]


def failures(network) -> list[str]:
    """What the server says of jobs that have failed."""
    words = [PROGRAM, "status", network.server.endpoint, "--json"]
    answer = subprocess.run(words, capture_output=True, check=True)
    return [str(failure) for failure in json.loads(answer.stdout)["failures"]]


@pytest.mark.parametrize("ending", ["destroyed", "not destroyed"])
def test_a_job_whose_ranks_have_finished_has_not_failed(ending, own_network, tmp_path):
    run_to_the_end("innetwork", ending, own_network, tmp_path)
    assert failures(own_network) == []


@pytest.mark.parametrize("way, ending", CASES)
def test_a_program_ends_by_itself(way, ending, network, tmp_path):
    run_to_the_end(way, ending, network, tmp_path)


def run_to_the_end(way, ending, network, tmp_path):
    program = PROLOGUE + ENDINGS[ending]
    if "split" in ending:  # of one device: torch asks for it once
        program = program.replace('"atp"', '"cpu:atp"')
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "store"), str(rank)],
            env={
                **os.environ,
                **environment_of(way),
                "ATP_ROUTE": network.route,
                "OMP_NUM_THREADS": "1",
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for rank, process in enumerate(processes):
            _, log = process.communicate(timeout=240)  # importing torch with CUDA takes long
            assert process.returncode == 0, f"rank {rank}:\n{log}"
    finally:
        for process in processes:
            process.kill()


NINE_GROUPS = """
groups = [dist.new_group() for _ in range(8)]
for group in groups:
    dist.all_reduce(torch.ones(100), group=group)
dist.barrier()
print("begun", flush=True)
sys.stdin.readline()
"""

NINE_GROUPS_END = {
    "destroyed": "dist.destroy_process_group()",
    "not destroyed": "pass",
    "aborted": """
for group in [dist.group.WORLD, *groups]:
    group._get_backend(torch.device("cpu")).abort()
""",
}


@pytest.fixture
def own_network():
    with Network() as network:
        yield network


# Each waits out the server's lease, 5 s; one after the other they would take longer than this.
@pytest.mark.parametrize("ending", NINE_GROUPS_END)
def test_nine_groups_end_together_though_their_server_is_gone(ending, own_network, tmp_path):
    program = PROLOGUE + NINE_GROUPS + NINE_GROUPS_END[ending]
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(tmp_path / "store"), str(rank)],
            env={
                **os.environ,
                **environment_of("innetwork"),
                "ATP_ROUTE": own_network.route,
                "OMP_NUM_THREADS": "1",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        for process in processes:
            assert process.stdout.readline() == "begun\n"
        os.kill(own_network.server.pid, signal.SIGKILL)
        for rank, process in enumerate(processes):
            _, log = process.communicate("go on\n", timeout=30)
            assert process.returncode == 0, f"rank {rank}:\n{log}"
    finally:
        for process in processes:
            process.kill()


def test_another_torch_is_refused_at_import():
    program = "import torch; torch.__version__ = '2.99.0+cpu'; import atp.torch"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 1
    series = ".".join(torch.__version__.split(".")[:2])
    assert f"built for torch {series}, but torch 2.99.0+cpu is installed" in process.stderr


def test_importing_atp_does_not_import_torch():
    program = "import sys, atp; assert 'torch' not in sys.modules; print(atp.__version__)"
    process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
