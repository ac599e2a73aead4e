"""Augment a Hugging Face dataset with `set_transform` and DataLoader workers.

python examples/pipelines/with_datasets.py
"""

from typing import Any

import datasets
import torch
from digits import EPOCHS, as_tensor, digits, learn, say_error, small_network
from torch.utils.data import DataLoader

import hba


def main() -> None:
    torch.manual_seed(0)
    images, labels, test_images, test_labels = digits()
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(num_classes=10)}
    )
    data = datasets.Dataset.from_dict(
        {"image": images, "label": labels}, features=features
    )

    policy = hba.load_policy("digits").transform()

    def augmented(rows: dict[str, list[Any]]) -> dict[str, list[Any]]:
        return {
            "image": [as_tensor(policy(image)) for image in rows["image"]],
            "label": rows["label"],
        }

    data.set_transform(augmented)
    loader = DataLoader(
        data, batch_size=50, shuffle=True, num_workers=2, persistent_workers=True
    )
    network = small_network()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        policy.set_epoch(epoch, EPOCHS)  # reaches the workers
        for batch in loader:
            learn(network, optimizer, batch["image"], batch["label"])
    say_error(network, test_images, test_labels)


if __name__ == "__main__":
    main()
