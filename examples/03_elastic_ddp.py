"""Training that goes on without a rank that has died. Needs torch 2.14 or later.

    build/release/bin/atp run -n 3 --grace 60 -- .venv/bin/python examples/03_elastic_ddp.py

The last rank kills itself before step 5. The others meet again, and go on as two. (`atp run` ends
with that rank's exit code, whatever the others do.)
"""

import datetime
import json
import os
import signal
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch  # noqa: F401 (registers the backend)

STEPS = 10
LAST_STEP_OF_LAST_RANK = 5
PATIENCE_S = 5  # how long the others wait for a rank that may be alive


class Members:
    """The processes that take part. Process 0 serves the store, so it decides who does."""

    def __init__(self):
        self.store = dist.distributed_c10d._get_default_store()
        self.own = int(os.environ["RANK"])  # never changes, unlike dist.get_rank()
        self.all = list(range(int(os.environ["WORLD_SIZE"])))
        self.rounds = 0

    def meet(self) -> None:
        """Makes the group of those that are alive."""
        self.rounds += 1
        store = dist.PrefixStore(f"round {self.rounds}", self.store)
        store.set(f"handle/{self.own}", dist._get_reconfigure_handle())
        if self.own == 0:
            end = time.monotonic() + PATIENCE_S
            while not store.check([f"handle/{each}" for each in self.all]):
                if time.monotonic() > end:
                    break
                time.sleep(0.05)
            here = [each for each in self.all if store.check([f"handle/{each}"])]
            store.set("members", json.dumps(here))
        self.all = json.loads(store.get("members"))
        handles = [store.get(f"handle/{each}").decode() for each in self.all]
        dist._reconfigure(
            self.rounds, handles, timeout=datetime.timedelta(seconds=2 * PATIENCE_S)
        ).wait()


def train(model, optimizer, members, step) -> int:
    """Trains until the last step, or until a rank fails; returns the next step."""
    # A new one for each group: it divides by the number of ranks that it has seen at first. It also
    # sends rank 0's parameters to all. (Send the state of an optimizer that has one, too.)
    ddp = DistributedDataParallel(model)
    # Some ranks may have ended a step that others have not.
    started = torch.tensor(step)
    dist.broadcast(started, 0)
    step = int(started)
    try:
        while step < STEPS:
            if step == LAST_STEP_OF_LAST_RANK and members.own == int(os.environ["WORLD_SIZE"]) - 1:
                os.kill(os.getpid(), signal.SIGKILL)
            # The same on all ranks, so that the result does not depend on their number.
            inputs = torch.randn(8, 20, generator=torch.Generator().manual_seed(step))
            optimizer.zero_grad()
            ddp(inputs).pow(2).mean().backward()
            optimizer.step()
            step += 1
    except dist.DistBackendError as error:
        print(f"process {members.own}, step {step}: {error}", flush=True)
    return step


def main() -> None:
    dist.init_process_group("atp", enable_reconfigure=True)
    members = Members()
    torch.manual_seed(0)
    model = torch.nn.Linear(20, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    step = 0
    while step < STEPS:
        try:
            members.meet()
            step = train(model, optimizer, members, step)
        except dist.DistBackendError as error:  # another rank has died in the meantime
            print(f"process {members.own}: {error}", flush=True)
    total = model.weight.double().sum().item()
    print(f"process {members.own}: rank {dist.get_rank()} of {dist.get_world_size()}, {total:.6f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
