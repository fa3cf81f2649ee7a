"""One rank of test_hierarchy.py: DistributedDataParallel for STEPS steps; prints, as JSON, whether
its group summed in memory, the digest of all sums and one of the parameters.
"""

import hashlib
import json
import os

import torch
import torch.distributed as dist

import atp.torch

dist.init_process_group("atp")
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.ReLU(), torch.nn.Linear(512, 256))
ddp = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=0.25)
ddp.register_comm_hook(None, atp.torch.ddp_hook)
optimizer = torch.optim.Adam(model.parameters())
generator = torch.Generator().manual_seed(dist.get_rank())
for _ in range(int(os.environ["STEPS"])):
    x = torch.randn(8, 256, generator=generator)
    optimizer.zero_grad()
    (ddp(x) - x).square().mean().backward()
    optimizer.step()
parameters = hashlib.sha256()
for parameter in model.parameters():
    parameters.update(parameter.detach().numpy().tobytes())
found = {
    "in_memory": atp.torch.stats()["host_memory"],
    "digest": str(atp.torch.digest()),
    "parameters": parameters.hexdigest(),
}
print(json.dumps(found), flush=True)
dist.destroy_process_group()
