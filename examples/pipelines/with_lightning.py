"""Augment batches on the device in a Lightning module: one call draws the policy for
each image of a batch.

python examples/pipelines/with_lightning.py
"""

from typing import Any

import lightning
import torch
from digits import EPOCHS, as_tensor, digits, say_error, small_network
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hba


class Classifier(lightning.LightningModule):
    def __init__(self, policy: str) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = small_network()
        self.policy = hba.load_policy(policy).transform()

    def on_train_batch_start(self, batch: tuple[Tensor, Tensor], number: int) -> None:
        self.policy.set_progress(
            self.trainer.global_step / self.trainer.estimated_stepping_batches
        )

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(self.policy(images)), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    lightning.seed_everything(0)
    images, labels, test_images, test_labels = digits()
    data = TensorDataset(
        torch.stack([as_tensor(image) for image in images]), torch.tensor(labels)
    )
    loader = DataLoader(data, batch_size=50, shuffle=True)
    options: dict[str, Any] = {
        "max_epochs": EPOCHS,
        "logger": False,
        "enable_progress_bar": False,
    }
    # One checkpoint, in the middle of the third epoch, from which the training is
    # resumed here.
    checkpoints = ModelCheckpoint("checkpoints", every_n_train_steps=15)
    lightning.Trainer(**options, callbacks=[checkpoints]).fit(
        Classifier("digits"), loader
    )
    module = Classifier("digits")
    trainer = lightning.Trainer(**options, enable_checkpointing=False)
    trainer.fit(module, loader, ckpt_path=checkpoints.best_model_path)
    say_error(module.network.cpu(), test_images, test_labels)


if __name__ == "__main__":
    main()
