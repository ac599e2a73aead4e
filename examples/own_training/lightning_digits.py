"""Choose the augmentation of a Lightning module. Replace digits and `Classifier` by
your own images and module:

    hba contest examples/own_training/lightning_digits.py:train --budget 10m
"""

from collections.abc import Callable
from typing import Any

import lightning
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 30
"""Epochs of a whole training."""
N_TRAIN = 300
N_VALIDATION = 300


class Digits(Dataset[Any]):
    """Handwritten digits, uint8 (1, 8, 8), and their numbers."""

    def __init__(self, places: slice, transform: Callable[..., Any] | None = None):
        digits = load_digits()
        levels = torch.from_numpy(digits.images[places] * (255 / 16)).round().byte()
        self.images = levels[:, None]
        self.labels = torch.from_numpy(digits.target[places])
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return image.float() / 255, self.labels[index]


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1, stride=2),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 10),
        )

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        images, labels = batch
        return F.cross_entropy(self.network(images), labels)

    def predict_step(self, batch: tuple[Tensor, Tensor], index: int) -> Tensor:
        images, labels = batch
        return (self.network(images).argmax(dim=1) == labels).float()

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=2e-3)


def train(transform: Callable[..., Any], seed: int, effort: float) -> list[float]:
    """Train for a share of the epochs; return which validation images are right."""
    lightning.seed_everything(seed, verbose=False)
    trainer = lightning.Trainer(
        max_epochs=max(1, round(effort * EPOCHS)),
        accelerator="auto",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    training = Digits(slice(0, N_TRAIN), transform)
    validation = Digits(slice(N_TRAIN, N_TRAIN + N_VALIDATION))
    model = Classifier()
    trainer.fit(model, DataLoader(training, batch_size=32, shuffle=True))
    answers: Any = trainer.predict(model, DataLoader(validation, batch_size=100))
    scores: list[float] = torch.cat(answers).tolist()
    return scores
