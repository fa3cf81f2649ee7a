"""DistributedDataParallel over atp: the name of the backend is new, and one hook.

    build/release/bin/atp run -n 2 -- .venv/bin/python examples/02_torch_ddp.py

`atp run` sets the variables that torchrun sets. Ranks of one machine share memory; with --switch
they sum through a switch and a server, which `atp run` starts. Under torchrun on several machines,
say with ATP_ROUTE where the switch and the server are.
"""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch


def main() -> None:
    dist.init_process_group("atp")
    rank, world_size = dist.get_rank(), dist.get_world_size()

    # The task: find the 1,000 weights that made the targets. Each rank sees other examples.
    teacher = torch.randn(1000, 1, generator=torch.Generator().manual_seed(0))
    examples = torch.Generator().manual_seed(1 + rank)

    model = DistributedDataParallel(torch.nn.Linear(1000, 1, bias=False))
    # Tells atp where the gradient of one parameter ends and the next one begins.
    model.register_comm_hook(None, atp.torch.ddp_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    for step in range(50):
        inputs = torch.randn(500, 1000, generator=examples)
        loss = torch.nn.functional.mse_loss(model(inputs), inputs @ teacher)
        optimizer.zero_grad()
        loss.backward()  # the gradients are summed while this runs
        optimizer.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step:2}: loss {loss.item():.1e}")

    # Every rank got the same bits, so every rank has the same model.
    mine = model.module.weight.detach()
    others = [torch.empty_like(mine) for _ in range(world_size)]
    dist.all_gather(others, mine)
    assert all(torch.equal(mine, other) for other in others)

    error = (mine.T - teacher).abs().max().item()
    sums = atp.torch.stats()["atp"]["all_reduce"]["float32"]
    print(
        f"rank {rank} of {world_size}: weights equal at all ranks, {error:.1e} from the truth at "
        f"most, after {sums['calls']} sums by atp"
    )
    assert error < 0.01
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
