"""Train a small network on digits with a schedule, in a plain torchvision pipeline with
DataLoader workers.

    python examples/train_digits.py runs/digits-1/policy.json
    python examples/train_digits.py none

Without an argument, it uses the schedule for digits that ships with hba.
"""

import argparse

import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torchvision.transforms import v2

import hba


class Digits(Dataset[tuple[Tensor, int]]):
    """PIL images, as they are read from files, passed through the given transform."""

    def __init__(
        self, images: list[Image.Image], labels: list[int], transform: v2.Transform
    ) -> None:
        self.images, self.labels, self.transform = images, labels, transform

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.transform(self.images[index]), self.labels[index]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("schedule", nargs="?", default="digits")
    parser.add_argument("--epochs", type=int, default=60)
    arguments = parser.parse_args()
    torch.manual_seed(0)

    to_tensor = v2.Compose(
        [v2.Resize(16), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    )
    policy = (
        None
        if arguments.schedule == "none"
        else hba.load_policy(arguments.schedule).transform()
    )
    augmented = (
        to_tensor
        if policy is None
        else v2.Compose([v2.Resize(16), policy, *to_tensor.transforms[1:]])
    )

    digits = load_digits()
    images = [
        Image.fromarray((image * (255 / 16)).astype("uint8")).convert("RGB")
        for image in digits.images
    ]
    train_images, test_images, train_labels, test_labels = train_test_split(
        images,
        digits.target.tolist(),
        train_size=200,
        stratify=digits.target,
        random_state=0,
    )
    train_set = Digits(train_images, train_labels, augmented)
    loader = DataLoader(
        train_set, batch_size=50, shuffle=True, num_workers=2, persistent_workers=True
    )
    test_loader = DataLoader(
        Digits(test_images, test_labels, to_tensor), batch_size=500
    )

    network = nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, arguments.epochs)
    for epoch in range(arguments.epochs):
        if policy is not None:
            policy.set_epoch(epoch, arguments.epochs)
        for batch, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(batch), labels).backward()
            optimizer.step()
        schedule.step()

    network.eval()
    with torch.no_grad():
        wrong = sum(
            int((network(batch).argmax(1) != labels).sum())
            for batch, labels in test_loader
        )
    print(
        f"test error with {arguments.schedule}: {100 * wrong / len(test_labels):.2f} %"
    )


if __name__ == "__main__":
    main()
