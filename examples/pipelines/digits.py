"""The data and network of the examples in this folder: handwritten digits as PIL
images, and a small network.
"""

import torch
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import Tensor, nn

SIDE = 16
EPOCHS = 4


def digits() -> tuple[list[Image.Image], list[int], Tensor, Tensor]:
    """300 training images (RGB, 16x16) and their labels; test images (B, 3, 16, 16) in
    [0, 1] and their labels (B,).
    """
    data = load_digits()
    levels = (data.images * (255 / 16)).astype("uint8")
    images = [
        Image.fromarray(image).convert("RGB").resize((SIDE, SIDE)) for image in levels
    ]
    train, test, train_labels, test_labels = train_test_split(
        images,
        data.target.tolist(),
        train_size=300,
        stratify=data.target,
        random_state=0,
    )
    return (
        train,
        train_labels,
        torch.stack([as_tensor(image) for image in test]),
        torch.tensor(test_labels),
    )


def as_tensor(image: Image.Image) -> Tensor:
    """(3, H, W) in [0, 1]."""
    levels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8)
    return levels.view(image.height, image.width, 3).permute(2, 0, 1) / 255


def small_network() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 4 * 4, 10),
    )  # fmt: skip


def learn(
    network: nn.Module, optimizer: torch.optim.Optimizer, images: Tensor, labels: Tensor
) -> None:
    optimizer.zero_grad()
    nn.functional.cross_entropy(network(images), labels).backward()
    optimizer.step()


@torch.no_grad()
def say_error(network: nn.Module, images: Tensor, labels: Tensor) -> None:
    wrong = (network.eval()(images).argmax(dim=1) != labels).float().mean()
    print(f"test error: {100 * wrong:.2f} %")
