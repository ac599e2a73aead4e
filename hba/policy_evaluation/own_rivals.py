"""Augmentations of the user's own as rows of an evaluation: their names, and a first try before any training."""

import copy
from typing import Any

import torch

from hba.data.images import Images
from hba.data.loader import as_floats
from hba.errors import SettingsError
from hba.training.augmentation import Augmentation
from hba.utils.seeding import default_generators

N_TRIED = 2


def check_augmentation(given: Any) -> None:
    """SettingsError for what is neither a name nor a schedule nor an augmentation."""
    kind = f"the class {given.__name__}; give an object of it" if isinstance(given, type) else type(given).__name__
    is_complete = isinstance(getattr(given, "definition", None), str) and callable(getattr(given, "by_epoch", None))
    if isinstance(given, type) or not is_complete:
        raise SettingsError(
            "against must have names, schedule files, schedules, or objects with a text `definition` and a function "
            f"`by_epoch`, as hba.Augmentation describes them, got {kind}"
        )


def own_name(augmentation: Augmentation) -> str:
    """Its `name`, else its class."""
    name = getattr(augmentation, "name", None)
    return name if isinstance(name, str) and name else type(augmentation).__name__


def try_out(augmentation: Augmentation, train: Images, epochs: int) -> None:
    """Augment the first training images by a copy, as in the first and in the last epoch.

    SettingsError for a result that no network could take, and for another number of functions than of epochs.

    An error of the user's own code stays as it is. The caller's random numbers are left alone.
    """
    name = own_name(augmentation)
    n = min(N_TRIED, len(train))
    (levels,) = [images for images, _ in train.batches(torch.arange(n, device=train.device), n)]
    images = as_floats(levels)
    with default_generators(train.device):
        functions = list(copy.deepcopy(augmentation).by_epoch(epochs, train))
        if len(functions) != epochs:
            raise SettingsError(f"{name} must return one function for each of {epochs} epochs, got {len(functions)}")
        for function in (functions[0], functions[-1]):
            before = images.clone()
            augmented = function(images, torch.Generator(train.device).manual_seed(0))
            _check_augmented(name, augmented, images, before)


def _check_augmented(name: str, augmented: Any, images: torch.Tensor, before: torch.Tensor) -> None:
    """before: what images were before they were augmented."""
    if not isinstance(augmented, torch.Tensor) or (augmented.shape, augmented.dtype) != (images.shape, images.dtype):
        found = (
            f"{augmented.dtype} {tuple(augmented.shape)}" if isinstance(augmented, torch.Tensor) else type(augmented)
        )
        raise SettingsError(
            f"{name} must return images of {images.dtype} {tuple(images.shape)} for such ones, got {found}"
        )
    if not (torch.isfinite(augmented).all() and augmented.min() >= 0 and augmented.max() <= 1):
        low, high = augmented.min().item(), augmented.max().item()
        raise SettingsError(f"{name} must return images in [0, 1], got {low:g} to {high:g}; add .clamp(0, 1)")
    if not torch.equal(images, before):
        raise SettingsError(f"{name} must return new images, and writes into those that it is given; clone them first")
