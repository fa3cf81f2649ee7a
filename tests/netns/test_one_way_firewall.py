"""Hosts whose firewalls let ranks connect in one direction only: whoever can call does, whichever
rank comes first; and where neither can, the errors say why."""

import json
import sys

import pytest

from lab.ranks import run_ranks

from .conftest import serve

HOSTS = ("w0", "w1", "w2")

EVERYTHING = """
import time, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
rank, size = dist.get_rank(), dist.get_world_size()
for first in ("broadcast", "barrier", "send"):
    for late in (None, *range(size)):
        group = dist.new_group()
        if rank == late:
            time.sleep(0.5)
        tensor = torch.full((1000,), float(rank))
        if first == "broadcast":
            dist.broadcast(tensor, group_src=1, group=group)
            assert tensor.eq(1).all(), tensor
        elif first == "send":
            work = dist.isend(torch.full((1000,), rank), group_dst=(rank + 1) % size, group=group)
            found = torch.zeros(1000, dtype=torch.int64)
            dist.recv(found, group_src=(rank - 1) % size, group=group)
            work.wait()
            assert found.eq((rank - 1) % size).all(), found
        dist.barrier(group=group)
        blocks = [torch.empty(50_000, dtype=torch.int64) for _ in range(size)]
        dist.all_gather(blocks, torch.full((50_000,), rank), group=group)
        assert all(block.eq(r).all() for r, block in enumerate(blocks))
dist.barrier()
dist.destroy_process_group()
print("all is right")
"""

ONE_BARRIER = """
import datetime, json, torch, torch.distributed as dist, atp.torch
dist.init_process_group("atp")
group = dist.new_group(timeout=datetime.timedelta(seconds=4))
try:
    dist.barrier(group=group)
    error = None
except RuntimeError as failure:
    error = str(failure)
print(json.dumps(error), flush=True)
"""


def close(host, verdict="drop"):
    """What comes in is an answer, or for the store, or not TCP."""
    host.exec("nft", "add table inet wall")
    host.exec("nft", "add chain inet wall in { type filter hook input priority 0 ; }")
    for rule in ("ct state established,related accept", "iif lo accept"):
        host.exec("nft", f"add rule inet wall in {rule}")
    host.exec("nft", f"add rule inet wall in tcp dport 32768-60999 {verdict}")


def make(make_network, closed, verdict="drop"):
    network = make_network("services", *HOSTS)
    route = serve(network)
    for name in closed:
        close(network[name], verdict)
    return network, {"ATP_ROUTE": route, "ATP_ALGORITHM": "innetwork"}


@pytest.mark.parametrize("verdict", ["drop", "reject with tcp reset"])
@pytest.mark.parametrize("closed", HOSTS)
def test_any_collective_works_if_one_of_two_ranks_can_call_the_other(make_network, closed, verdict):
    network, env = make(make_network, [closed], verdict)
    workers = [network[name] for name in HOSTS]
    for output in run_ranks(network, (sys.executable, "-c", EVERYTHING), 120, env, workers):
        assert output.splitlines()[-1] == "all is right"


def test_if_neither_can_call_the_error_says_so(make_network):
    network, env = make(make_network, ["w0", "w1"])
    workers = [network[name] for name in HOSTS]
    outputs = run_ranks(network, (sys.executable, "-c", ONE_BARRIER), 120, env, workers)
    errors = [json.loads(output.splitlines()[-1]) for output in outputs]
    assert any("no connection with rank" in error for error in errors[:2]), errors
    for error in errors[:2]:
        assert "rank 2" not in error.split("no connection with")[-1], errors
        assert "a firewall may drop connections to it" in error, errors
    # Rank 2 hears of both ranks, which may be all that its barrier needs.
    assert errors[2] is None or "rank 2" not in errors[2], errors
