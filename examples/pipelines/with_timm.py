"""Augment images in timm's training loader, with a file from `hba export --to
torchvision`.

python examples/pipelines/with_timm.py
"""

import importlib
import sys
from typing import Any

import torch
from digits import EPOCHS, SIDE, digits, learn, say_error, small_network
from PIL import Image
from timm.data.loader import create_loader
from timm.data.transforms_factory import create_transform
from torch.utils.data import Dataset
from torchvision.transforms import v2

import hba


class Digits(Dataset[tuple[Any, int]]):
    """Like timm's own datasets, it has a transform that is set from outside."""

    def __init__(self, images: list[Image.Image], labels: list[int]) -> None:
        self.images, self.labels = images, labels
        self.transform: Any = None

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.transform(self.images[index]), self.labels[index]


def main() -> None:
    torch.manual_seed(0)
    # The same as `hba export digits --to torchvision`, next to the training that
    # imports it.
    hba.export("digits", "torchvision", "digits_torchvision.py")
    sys.path.insert(0, ".")
    policy = importlib.import_module("digits_torchvision").transform()

    images, labels, test_images, test_labels = digits()
    dataset: Any = Digits(images, labels)
    loader = create_loader(
        dataset,
        input_size=(3, SIDE, SIDE),
        batch_size=50,
        is_training=True,
        use_prefetcher=False,
        num_workers=2,
    )
    # The loader's settings; the policy comes between cropping and normalisation, and
    # replaces timm's jitter.
    settings: dict[str, Any] = {
        **{"scale": (0.8, 1.0), "hflip": 0.0, "color_jitter": None},
        **{"mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)},
    }
    crop, second, to_tensor = create_transform(
        SIDE, is_training=True, separate=True, **settings
    )
    loader.dataset.transform = v2.Compose([crop, policy, second, to_tensor])
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        policy.set_epoch(epoch, EPOCHS)
        for batch, batch_labels in loader:
            learn(network, optimizer, batch, batch_labels)
    say_error(network, test_images, test_labels)


if __name__ == "__main__":
    main()
