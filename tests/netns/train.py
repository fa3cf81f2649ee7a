"""DistributedDataParallel over atp for STEPS steps; prints how many bytes it summed."""

import os

import torch
import torch.distributed as dist

import atp.torch

steps = int(os.environ["STEPS"])
dist.init_process_group("atp")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 256))
model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(steps):
    x = torch.randn(8, 256)
    loss = (model(x) - x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
gradient_bytes = 4 * steps * sum(p.numel() for p in model.parameters())
print(f"rank {dist.get_rank()} summed {gradient_bytes} bytes", atp.torch.stats(), flush=True)
dist.destroy_process_group()
