"""Augment batches on the device in a Lightning module: the policy is drawn for each image of a batch at once.

python examples/pipelines/with_lightning.py
"""

import lightning
import torch
from digits import EPOCHS, as_tensor, digits, say_error, small_network
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import hba


class Classifier(lightning.LightningModule):
    def __init__(self, schedule: hba.Schedule, epochs: int) -> None:
        super().__init__()
        self.network = small_network()
        self.schedule = schedule.stretched(epochs)

    def on_train_epoch_start(self) -> None:
        self.policy = self.schedule.policy(self.current_epoch).to(self.device)

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
    module = Classifier(hba.load_policy("digits"), EPOCHS)
    trainer = lightning.Trainer(
        max_epochs=EPOCHS, accelerator="auto", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(module, loader)
    say_error(module.network.cpu(), test_images, test_labels)


if __name__ == "__main__":
    main()
