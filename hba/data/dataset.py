"""From a torch Dataset of images and labels to images in memory."""

from collections.abc import Iterable, Iterator, Sized
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import Dataset
from torchvision.transforms.v2 import functional as TF

from hba.data.checks import CHANNELS, checked_images
from hba.data.folder import fitted
from hba.data.images import LabelledImages, OnRead
from hba.data.levels import Levels
from hba.errors import DataError


def from_dataset(
    dataset: Dataset[Any] | Iterable[Any],
    *,
    image_size: int,
    levels: Levels | None = None,
    on_read: OnRead | None = None,
) -> LabelledImages:
    """The images of a Dataset, such as torchvision's, as `hba.data.SearchData` takes them.

    dataset: of pairs (image, label), each read once; random transforms are drawn once. An image is PIL's, or a tensor
    (C, H, W) or array (H, W, C), uint8 or floating point in [0, 1]; it is fitted as the images of a folder are: the
    shorter side is resized to image_size pixels, and the centre cut out. levels: those that are black and white in PIL
    images of more than 8 bits. on_read: told how many are read, of how many, where the dataset has a length. DataError
    for what is no such pair.
    """
    images: list[Tensor] = []
    labels: list[int] = []
    for number, sample in enumerate(_samples(dataset)):
        if not (isinstance(sample, tuple | list) and len(sample) == 2):
            kind = type(sample).__name__
            raise DataError(f"the dataset must have pairs (image, label), but number {number} is of the type {kind}")
        image, label = sample
        try:
            images.append(fitted(_picture(image), image_size, levels))
        except ValueError as error:
            raise DataError(f"number {number} of the dataset: {error}") from None
        labels.append(_label(label, number))
        if on_read is not None and isinstance(dataset, Sized):
            on_read(number + 1, len(dataset))
    if not images:
        raise DataError("the dataset is empty: there must be at least one image")
    return LabelledImages(torch.stack(images), torch.tensor(labels))


def _samples(dataset: Any) -> Iterator[Any]:
    """Of one with a length in its order; by its own iterator where there is none."""
    if hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__"):
        return (dataset[index] for index in range(len(dataset)))
    try:
        return iter(dataset)
    except TypeError:
        raise DataError(f"a Dataset of pairs (image, label) is needed, got {type(dataset).__name__}") from None


def _picture(image: Any) -> Image.Image:
    if isinstance(image, Image.Image):
        return image
    one = image if isinstance(image, Tensor) else np.asarray(image)
    pixels = checked_images(one[None])[0]
    if len(pixels) not in CHANNELS:
        raise ValueError(
            f"it has {len(pixels)} channels; give images of other than 1 or 3 as hba.data.LabelledImages or by .npz"
        )
    picture: Image.Image = TF.to_pil_image(pixels)
    return picture


def _label(label: Any, number: int) -> int:
    value = label.item() if isinstance(label, Tensor | np.generic | np.ndarray) and label.ndim == 0 else label
    if isinstance(value, bool) or not isinstance(value, int):
        shown = type(label).__name__ if not isinstance(value, float | bool) else repr(value)
        raise DataError(f"labels must be whole numbers, the class of each image, but number {number} has {shown}")
    return value
