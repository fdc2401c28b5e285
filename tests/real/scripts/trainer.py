"""A Lightning Trainer over one epoch, with its progress bar."""

import lightning
import torch
from keep import keep
from torch.utils.data import DataLoader, TensorDataset


class Regression(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
        )

    def training_step(self, batch, _):
        x, y = batch
        return torch.nn.functional.mse_loss(self.layers(x), y)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


lightning.seed_everything(0)
data = TensorDataset(torch.randn(24, 4), torch.randn(24, 1))
model = Regression()
trainer = lightning.Trainer(accelerator="cpu", max_epochs=1, logger=False, enable_checkpointing=False)
trainer.fit(model, DataLoader(data, batch_size=8, shuffle=True))
keep(model)
