"""A loop with accelerate as in its documentation, over the given backend."""

import json
import sys
from pathlib import Path

import accelerate
import torch
import torch.distributed as dist

import atp.torch


def batches():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(96, 8, generator=generator)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=6)


def main(backend, folder):
    # Accelerate knows no backend by this name, but takes an existing group.
    dist.init_process_group(backend)
    accelerate.utils.set_seed(1)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1))
    model, optimizer, loader = accelerator.prepare(
        model, torch.optim.SGD(model.parameters(), lr=0.05), batches()
    )
    losses, predictions = [], []
    for _ in range(3):
        for x, y in loader:
            with accelerator.accumulate(model):
                output = model(x)
                loss = (output - y).square().mean()
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.reduce(loss.detach(), reduction="mean").item())
            predictions.append(accelerator.gather_for_metrics(output.detach()).sum().item())
    rank = accelerator.process_index
    counts = torch.tensor([rank + 2, -3 * rank])
    longer = accelerator.pad_across_processes(torch.ones(rank + 1, dtype=torch.int64), pad_index=-1)
    said = {
        "losses": losses,
        "predictions": predictions,
        "counts": accelerator.reduce(counts, reduction="sum").tolist(),
        "padded": accelerator.gather(longer).tolist(),
        "objects": accelerate.utils.gather_object([{"rank": rank}]),
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(),
        "kind": str(accelerator.distributed_type),
    }
    if backend == "atp":
        stats = atp.torch.stats()
        said["summed by us"] = sorted(stats["innetwork"] or stats["ring"])
    accelerator.wait_for_everyone()
    (folder / f"{rank}.json").write_text(json.dumps(said))
    accelerator.end_training()  # destroys the group


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
