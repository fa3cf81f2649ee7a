"""An operation that is too slow fails at its time-out, although it makes progress."""

import json
import sys

import pytest

from lab.ranks import run_ranks

from .conftest import serve

PROGRAM = """
import datetime, json, time, torch, torch.distributed as dist, atp.torch
torch.set_num_threads(1)
dist.init_process_group("atp")
patient = dist.AllreduceOptions()
patient.timeout = datetime.timedelta(seconds=60)
hasty = dist.AllreduceOptions()
hasty.timeout = datetime.timedelta(seconds=2)
slow = torch.ones(10_000_000)  # 40 MB: more than 6 s at 50 Mbit/s
works = [dist.group.WORLD.allreduce([torch.ones(1000)], hasty)]
works[0].wait()
begin = time.monotonic()
works.append(dist.group.WORLD.allreduce([slow], FIRST))
works.append(dist.group.WORLD.allreduce([torch.ones(1_000_000)], hasty))
errors = []
for work in works[1:]:
    try:
        work.wait()
        errors.append(None)
    except RuntimeError as error:
        errors.append(str(error))
print(json.dumps({"errors": errors, "seconds": time.monotonic() - begin}), flush=True)
dist.destroy_process_group()
"""
CASES = {"the slow one itself": "hasty", "one that is behind it": "patient"}


@pytest.mark.parametrize("algorithm", ["innetwork", "ring"])
@pytest.mark.parametrize("case", CASES)
def test_a_slow_operation_ends_at_its_time_out(make_network, algorithm, case):
    network = make_network("services", "w0", "w1", "w2")
    route = serve(network)
    workers = [network[name] for name in ("w0", "w1", "w2")]
    for worker in ("w0", "w1", "w2"):
        network.shape_host(worker, 50)
    program = PROGRAM.replace("FIRST", CASES[case])
    env = {"ATP_ROUTE": route, "ATP_ALGORITHM": algorithm}
    outputs = run_ranks(network, (sys.executable, "-c", program), 120, env, workers)
    found = [json.loads(output.splitlines()[-1]) for output in outputs]
    for rank in found:
        assert 1.9 < rank["seconds"] < 5, rank
        assert None not in rank["errors"], rank
    # Whoever notices first tells the others, with its reason.
    for text in [text for rank in found for text in rank["errors"]]:
        assert "not ended within its timeout of 2 s" in text, found
