"""Choose the augmentation of a Hugging Face Trainer. Replace digits and the network by
your own images and model:

    hba contest examples/own_training/transformers_digits.py:train --budget 10m
"""

from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch.utils.data import Dataset
from transformers import (
    PrinterCallback,
    Trainer,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
    set_seed,
)

EPOCHS = 60
"""Epochs of a whole training."""
N_TRAIN = 300
N_VALIDATION = 300
NETWORK = ViTConfig(
    image_size=8,
    patch_size=2,
    num_channels=1,
    hidden_size=64,
    intermediate_size=128,
    num_hidden_layers=2,
    num_attention_heads=4,
    id2label={number: str(number) for number in range(10)},
)


class Digits(Dataset[Any]):
    """Handwritten digits (1, 8, 8) and their numbers, as a Trainer takes them."""

    def __init__(self, places: slice, transform: Callable[..., Any] | None = None):
        digits = load_digits()
        levels = torch.from_numpy(digits.images[places] * (255 / 16)).round().byte()
        self.images = levels[:, None]
        self.labels = torch.from_numpy(digits.target[places])
        self.transform = transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Any]:
        image = self.images[index]
        if self.transform is not None:
            image = self.transform(image)
        return {
            "pixel_values": image.float() / 127.5 - 1,
            "labels": self.labels[index],
        }


def train(transform: Callable[..., Any], seed: int, effort: float) -> list[float]:
    """Train for a share of the epochs; return which validation images are right."""
    set_seed(seed)  # before the initial weights
    with TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=effort * EPOCHS,
            per_device_train_batch_size=32,
            learning_rate=2e-3,
            seed=seed,
            save_strategy="no",
            logging_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            ViTForImageClassification(NETWORK),
            arguments,
            train_dataset=Digits(slice(0, N_TRAIN), transform),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        validation = Digits(slice(N_TRAIN, N_TRAIN + N_VALIDATION))
        answers: Any = trainer.predict(validation)
    is_right = answers.predictions.argmax(axis=-1) == answers.label_ids
    scores: list[float] = is_right.astype(float).tolist()
    return scores
