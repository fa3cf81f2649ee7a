"""The torch example, run as its first lines say, and by torchrun."""

import os
import re
import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
PROGRAM = Path(os.environ.get("ATP_BUILD", CHECKOUT / "build/release"), "bin/atp")
EXAMPLE = CHECKOUT / "examples/02_torch_ddp.py"


def run(*options, **variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    return subprocess.run(
        [PROGRAM, "run", "-n", "2", *options, "--", sys.executable, EXAMPLE],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment | variables,
    )


def digest(result):
    assert result.returncode == 0, result.stderr
    return re.search(r"^weights, SHA-256: ([0-9a-f]{12})…$", result.stdout, re.MULTILINE)[1]


def test_ddp_trains_the_same_model_at_every_rank():
    result = run()
    assert result.returncode == 0, result.stderr
    for rank in range(2):
        assert f"rank {rank} of 2: weights equal on all ranks" in result.stdout
    assert "after 50 sums by atp" in result.stdout


def test_every_run_ends_with_the_same_bits_however_the_ranks_sum():
    ways = {
        "in memory": run(),
        "through a switch and a server": run("--switch"),
        "over a ring": torchrun(ATP_HOST_MEMORY="0"),
    }
    assert len({digest(result) for result in ways.values()}) == 1, ways


def torchrun(**variables):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("ATP_")}
    environment |= variables
    return subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        + [EXAMPLE],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
    )


def test_under_torchrun_without_memory_and_route_it_sums_over_a_ring():
    result = torchrun(ATP_HOST_MEMORY="0")
    assert result.returncode == 0, result.stderr


def test_under_torchrun_a_network_without_a_route_says_what_to_do():
    result = torchrun(ATP_HOST_MEMORY="0", ATP_ALGORITHM="innetwork")
    assert result.returncode != 0
    assert "atp has no route to the server" in result.stderr
