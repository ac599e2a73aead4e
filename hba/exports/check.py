"""Compares an exported file with its schedule: both augment the same images by the same random numbers."""

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
    """Differences to hba's own result in an epoch, counted from 0: in grey levels of 255, over n augmented images."""

    epoch: int
    n: int
    largest: float
    mean: float


def check(text: str, to: str, schedule: Schedule, images: Sequence[Image.Image]) -> tuple[Checked, ...]:
    """Compare the text that `export` gave for a target with the schedule: its first and last epoch, and one between.

    images: PIL images of mode L or RGB. Raises SettingsError for albumentations, which draws by its own random numbers.
    """
    find_target(to)
    if to == "albumentations":
        raise SettingsError("albumentations draws by its own random numbers, so its pipeline cannot be compared")
    schedule, exported, is_batch = schedule.without_regularizers(), _loaded(text, to), to == "kornia"
    given: list[Any] = [*images] * N_DRAWS
    if is_batch:
        given = [(TF.pil_to_tensor(one)[None] / 255).repeat(N_DRAWS, 1, 1, 1) for one in images]
    found = []
    for epoch in sorted({0, schedule.epochs // 3, schedule.epochs - 1}):
        own: Any = schedule.policy(epoch) if is_batch else schedule.only(epoch).transform()
        exported.set_epoch(epoch, schedule.epochs)
        pairs = zip(_augmented(own, given, epoch), _augmented(exported, given, epoch), strict=True)
        differences = np.concatenate([np.abs(one - other).ravel() for one, other in pairs])
        if is_batch:
            differences *= 255
        found.append(Checked(epoch, N_DRAWS * len(images), float(differences.max()), float(differences.mean())))
    return tuple(found)


def _loaded(text: str, to: str) -> Any:
    """The transform or augmentation of the file."""
    if to == "json":
        return Schedule(**parse(text)).without_regularizers().transform()
    module: Any = types.ModuleType("exported")
    exec(compile(text, "exported.py", "exec"), vars(module))
    return module.policy() if to == "kornia" else module.transform()


def _augmented(augment: Callable[[Any], Any], images: Sequence[Any], seed: int) -> list[np.ndarray]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return [np.asarray(augment(one), dtype=float) for one in images]
