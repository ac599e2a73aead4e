"""Augment batches on the device in a Lightning module: one call draws the policy for each image of a batch.

python examples/pipelines/with_lightning.py
"""

from pathlib import Path

import lightning
import torch
from digits import EPOCHS, as_tensor, digits, say_error, small_network
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hba


class Classifier(lightning.LightningModule):
    def __init__(self, policy: str) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.network = small_network()
        self.schedule = hba.load_policy(policy)

    def on_train_epoch_start(self) -> None:
        schedule = self.schedule.stretched(self.trainer.max_epochs or 1)
        self.policy = schedule.policy(self.current_epoch).to(self.device)

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(self.network(self.policy(images)), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.network.parameters(), lr=0.05, momentum=0.9)


def main() -> None:
    lightning.seed_everything(0)
    images, labels, test_images, test_labels = digits()
    data = TensorDataset(torch.stack([as_tensor(image) for image in images]), torch.tensor(labels))
    loader = DataLoader(data, batch_size=50, shuffle=True)
    module = Classifier("digits")
    # Lightning writes a checkpoint after each epoch, from which a training is resumed here.
    lightning.Trainer(max_epochs=EPOCHS // 2, logger=False, enable_progress_bar=False).fit(module, loader)
    (checkpoint,) = Path("checkpoints").glob("*.ckpt")
    trainer = lightning.Trainer(max_epochs=EPOCHS, logger=False, enable_progress_bar=False)
    trainer.fit(module, loader, ckpt_path=str(checkpoint))
    module = Classifier.load_from_checkpoint(max(Path("checkpoints").glob("*.ckpt")))
    say_error(module.network.cpu(), test_images, test_labels)


if __name__ == "__main__":
    main()
