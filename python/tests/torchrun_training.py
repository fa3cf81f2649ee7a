"""A training run under torchrun that continues from its checkpoint: FOLDER STEPS KILL.

Once, in the first attempt, rank 1 kills itself before step KILL (-1: never).
"""

import os
import signal
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import atp.torch

folder, steps, kill = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
checkpoint = folder / "checkpoint.pt"
attempt = int(os.environ["TORCHELASTIC_RESTART_COUNT"])

dist.init_process_group("atp")
rank = dist.get_rank()
torch.manual_seed(1)
model = torch.nn.Linear(50, 20)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
first = 0
if checkpoint.exists():
    saved = torch.load(checkpoint)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    first = saved["step"]
wrapped = DistributedDataParallel(model)
wrapped.register_comm_hook(None, atp.torch.ddp_hook)
for step in range(first, steps):
    if attempt == 0 and rank == 1 and step == kill:
        os.kill(os.getpid(), signal.SIGKILL)
    generator = torch.Generator().manual_seed(1000 * step + rank)
    optimizer.zero_grad()
    wrapped(torch.randn(8, 50, generator=generator)).square().mean().backward()
    optimizer.step()
    if rank == 0:
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        torch.save({**state, "step": step + 1}, folder / "new.pt")
        (folder / "new.pt").rename(checkpoint)
    dist.barrier()
if rank == 0:
    (folder / "result").write_text(f"{attempt} {first} {model.weight.double().sum().item()!r}")
dist.destroy_process_group()
