"""A search so small that it ends in a second: two classes of 8x8 images, bright on the
left or on the right.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import torch
from torch import Tensor, nn

import hba
from hba.algorithms import ALGORITHMS, Lookahead
from hba.data import LabelledImages, SearchData
from hba.policy_search.config import SearchConfig

SMALL_SETTINGS: dict[str, Any] = {
    "model": "wrn-10-1",
    "epochs": 3,
    "batch_size": 8,
    "device": "cpu",
    "algorithm": "lookahead",
    "train_steps": 2,
}


SELF_TUNING: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        # A response that is not centered, in all layers, diverges at the rate of the
        # others.
        "stn": {"warm_up_epochs": 0, "learning_rate": 0.003},
        "delta-stn": {"warm_up_epochs": 0},
    }
)
"""What algorithms need that would warm up for longer than a small search lasts."""


def small_settings(**settings: Any) -> dict[str, Any]:
    """Those of a small search, but for what is given; lambda moves from the first epoch
    on. By look-ahead, or joint where more than augmentation is tuned.
    """
    algorithm = settings.get(
        "algorithm", "joint" if "tune" in settings else "lookahead"
    )
    algorithm_class = ALGORITHMS.get(str(algorithm), Lookahead)
    able = {
        name: value
        for name, value in SMALL_SETTINGS.items()
        if name not in algorithm_class.idle
    } | {"algorithm": algorithm}
    return {**able, **SELF_TUNING.get(algorithm_class.name, {}), **settings}


def small_config(**settings: object) -> SearchConfig:
    return SearchConfig.make(
        {"data": "small", "image_size": 8, **small_settings(**settings)}
    )


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def small_images(n_images: int, seed: int) -> LabelledImages:
    generator = seeded(seed)
    images = torch.randint(0, 90, (n_images, 3, 8, 8), generator=generator)
    labels = torch.arange(n_images) % 2
    images[labels == 0, :, :, :4] += 150
    images[labels == 1, :, :, 4:] += 150
    return LabelledImages(images.to(torch.uint8), labels)


def small_data() -> SearchData:
    return SearchData(
        "small", ("left", "right"), small_images(24, seed=0), small_images(16, seed=1)
    )


class WithDropout(nn.Module):
    """Draws from torch's default generator, whose state a resumed run must restore."""

    def __init__(self) -> None:
        super().__init__()
        self.bn = nn.BatchNorm2d(3)
        self.dropout = nn.Dropout(0.5)
        self.linear = nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.linear(self.dropout(self.bn(x).flatten(1))))


class StopAfter(hba.SearchCallback):
    """Asks for a stop once so many steps were done in this process."""

    def __init__(self, n_steps: int) -> None:
        self.left = n_steps

    def step_done(self, step: int) -> None:
        self.left -= 1

    def stop_requested(self) -> bool:
        return self.left <= 0
