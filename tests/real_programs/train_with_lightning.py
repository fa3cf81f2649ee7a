"""A training program with Lightning as in its documentation, over the given backend."""

import json
import sys
import warnings
from pathlib import Path

import lightning
import torch
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.strategies import DDPStrategy

import atp.torch


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
        )
        self.said = {"losses": [], "integers": [], "gathered": []}

    def training_step(self, batch, _):
        x, y = batch
        loss = (self.model(x) - y).square().mean()
        self.log("loss", loss, sync_dist=True)
        self.said["losses"].append(self.trainer.strategy.reduce(loss.detach().clone()).item())
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        right = ((self.model(x) - y).abs() < 1).sum()  # an integer
        self.log("right", right, sync_dist=True, reduce_fx="sum")
        self.log("right_on_average", right, sync_dist=True)
        self.log("validation_loss", (self.model(x) - y).square().mean(), sync_dist=True)

    def on_validation_epoch_end(self):
        mine = torch.tensor([self.global_rank + 2, -3 * self.global_rank])
        self.said["integers"].append(self.trainer.strategy.reduce(mine.clone()).tolist())
        self.said["integers"].append(
            self.trainer.strategy.reduce(mine.clone(), reduce_op="sum").tolist()
        )
        self.said["gathered"].append(self.all_gather(mine).tolist())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05)


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(64, 8, generator=generator)
    data = torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
    return torch.utils.data.DataLoader(data, batch_size=8)


def main(backend, folder):
    warnings.simplefilter("ignore")
    lightning.seed_everything(1)
    model = Regression()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=3,
        strategy=DDPStrategy(process_group_backend=backend),
        callbacks=[EarlyStopping("validation_loss", patience=5)],
        logger=False,
        enable_progress_bar=False,
        default_root_dir=folder,
    )
    trainer.fit(model, batches(0), batches(1))
    summed = atp.torch.stats()["innetwork"] or atp.torch.stats()["ring"] if backend == "atp" else {}
    said = {
        **model.said,
        "metrics": {name: value.item() for name, value in trainer.callback_metrics.items()},
        "weights": torch.cat([p.detach().flatten() for p in model.parameters()]).tolist(),
        "summed by us": sorted(summed),
    }
    (folder / f"{trainer.global_rank}.json").write_text(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
