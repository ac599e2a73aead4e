"""Augment images in an albumentations pipeline, with a file from `hba export --to
albumentations --average`.

python examples/pipelines/with_albumentations.py
"""

import random
from typing import Any

import albumentations
import numpy as np
import torch
from digits import EPOCHS, digits, learn, say_error, small_network
from PIL import Image
from torch.utils.data import DataLoader, Dataset, get_worker_info

import hba


class Digits(Dataset[tuple[torch.Tensor, int]]):
    def __init__(
        self,
        images: list[Image.Image],
        labels: list[int],
        transform: albumentations.Compose,
    ) -> None:
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return (
            self.transform(image=np.array(self.images[index]))["image"],
            self.labels[index],
        )


def seed_worker(number: int) -> None:
    """albumentations does not use PyTorch's generator, whose seed differs between
    workers and epochs.
    """
    worker: Any = get_worker_info()
    generators = (
        np.random.default_rng(torch.initial_seed()),
        random.Random(torch.initial_seed()),
    )
    worker.dataset.transform.set_random_state(*generators)


def main() -> None:
    torch.manual_seed(0)
    # The same as `hba export digits --to albumentations --average`. A pipeline does not
    # change over epochs.
    hba.export(
        hba.load_policy("digits").averaged(),
        "albumentations",
        "digits_albumentations.json",
    )
    policy = albumentations.load("digits_albumentations.json")
    augment = albumentations.Compose(
        [policy, albumentations.ToFloat(255), albumentations.ToTensorV2()]
    )

    images, labels, test_images, test_labels = digits()
    data = Digits(images, labels, augment)
    loader = DataLoader(
        data, batch_size=50, shuffle=True, num_workers=2, worker_init_fn=seed_worker
    )
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for _ in range(EPOCHS):
        for batch, batch_labels in loader:
            learn(network, optimizer, batch, batch_labels)
    say_error(network, test_images, test_labels)


if __name__ == "__main__":
    main()
