"""Compares an exported file with its schedule: both augment the same images by the same
random numbers.
"""

import itertools
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.errors import SettingsError
from hba.exports.export import find_target
from hba.schedule.file import parse
from hba.schedule.schedule import Schedule

N_DRAWS = 20
"""Number of draws for each image in each epoch."""


class Checked(NamedTuple):
    """Differences to hba's own result in an epoch, counted from 0: in grey levels of
    255, over n augmented images.
    """

    epoch: int
    n: int
    largest: float
    mean: float


def check(
    text: str, to: str, schedule: Schedule, images: Sequence[Image.Image]
) -> tuple[Checked, ...]:
    """Compare the text that `export` gave for a target with the schedule: its first and
    last epoch, and one between.

    images: PIL images of mode L or RGB. torchvision and json augment them also as uint8
    tensors (C, H, W), which must get the pixels of PIL images. Raises SettingsError for
    albumentations, which draws by its own random numbers.
    """
    find_target(to)
    if to == "albumentations":
        raise SettingsError(
            "albumentations draws by its own random numbers, so its pipeline cannot be"
            " compared"
        )
    schedule, exported, is_batch = (
        schedule.without_regularizers(),
        _loaded(text, to),
        to == "kornia",
    )
    forms: list[list[Any]] = [
        [*images] * N_DRAWS,
        [TF.pil_to_tensor(one) for one in images] * N_DRAWS,
    ]
    if is_batch:
        forms = [
            [
                (one[None] / 255).repeat(N_DRAWS, 1, 1, 1)
                for one in forms[1][: len(images)]
            ]
        ]
    found = []
    for epoch in sorted({0, schedule.epochs // 3, schedule.epochs - 1}):
        own: Any = (
            schedule.policy(epoch) if is_batch else schedule.only(epoch).transform()
        )
        exported.set_epoch(epoch, schedule.epochs)
        results = (
            [_augmented(one, given, epoch) for given in forms]
            for one in (own, exported)
        )
        pairs = [
            zip(one, other, strict=True) for one, other in itertools.product(*results)
        ]
        differences = np.concatenate(
            [np.abs(one - other).ravel() for one, other in itertools.chain(*pairs)]
        )
        if is_batch:
            differences *= 255
        found.append(
            Checked(
                epoch,
                N_DRAWS * len(images),
                float(differences.max()),
                float(differences.mean()),
            )
        )
    return tuple(found)


def _loaded(text: str, to: str) -> Any:
    if to == "json":
        return Schedule(**parse(text)).without_regularizers().transform()
    module: Any = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    return module.policy() if to == "kornia" else module.transform()


def _augmented(
    augment: Callable[[Any], Any], images: Sequence[Any], seed: int
) -> list[np.ndarray]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        found = map(augment, images)
        return [
            np.asarray(
                TF.to_pil_image(one) if getattr(one, "ndim", 0) == 3 else one,
                dtype=float,
            )
            for one in found
        ]
