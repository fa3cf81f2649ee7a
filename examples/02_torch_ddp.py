"""DistributedDataParallel over atp: only the backend's name and one hook are new.

    build/release/bin/atp run -n 2 -- .venv/bin/python examples/02_torch_ddp.py

`atp run` sets the same variables as torchrun. Ranks on one machine sum in shared memory; with
--switch they sum through a switch and a server that `atp run` starts. With torchrun on several
machines they sum over a ring; set ATP_ROUTE to the addresses of a switch and a server to use these
where they are faster.
"""

import hashlib

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch


def main() -> None:
    dist.init_process_group("atp")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    # The task: recover the 1,000 weights that produced the targets. Examples differ by rank.
    teacher = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    examples = torch.Generator().manual_seed(1 + rank)

    torch.manual_seed(0)  # so that each run begins with the same weights, and ends with the same
    model = DistributedDataParallel(torch.nn.Linear(1000, 1, bias=False))
    # Tells atp where the gradients of the individual parameters are.
    model.register_comm_hook(None, atp.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(50):
        inputs = torch.randn(500, 1000, generator=examples)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ teacher)
        optimizer.zero_grad()
        loss.backward()  # sums the gradients while it runs
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:2}: loss {loss.item():.1e}")

    # Every rank got the same bits, so every rank has the same model.
    mine = model.module.weight.detach()
    others = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(others, mine)
    assert all(torch.equal(mine, other) for other in others)

    error = (mine.T - teacher).abs().max().item()
    stats = atp.torch.stats()
    sums = (stats["innetwork"] or stats["ring"])["all_reduce"]["float32"]
    print(
        f"rank {rank} of {world_size}: weights equal on all ranks, at most {error:.1e} from "
        f"the truth, after {sums['calls']} sums by atp"
    )
    if rank == 0:
        digest = hashlib.sha256(mine.numpy().tobytes()).hexdigest()
        print(f"weights, SHA-256: {digest[:12]}…")
    assert error < 0.01
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
