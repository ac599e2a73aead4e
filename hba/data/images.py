"""Labelled images in memory, and the parts of a data set that a search and an
evaluation may see.
"""

import hashlib
import math
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from hba.data.labels import as_tensor, checked_labels
from hba.data.leakage import ImageHash, Kind, all_hashes, hash_of_pixels
from hba.data.reading import SkippedFile
from hba.errors import DataError
from hba.tasks import task_of
from hba.utils.text import first_of

OnRead = Callable[[int, int], None]
"""Called with (images read, images to read)."""
Batch = tuple[Tensor, Tensor]
"""Images uint8 (B, C, H, W) and labels of a task, on the device: int64 (B,), bool (B,
classes), float32 (B,) or masks uint8 (B, H, W).
"""
Colors = tuple[float, ...]

IMAGES_PER_SUM = 256
CHANNELS = (1, 3)
"""Numbers of channels of pictures: grey, or red, green and blue."""
MOST_CHANNELS = 64
SHAPES = (
    "(N, H, W), (N, H, W, C) or (N, C, H, W), with 1, 3 or fewer channels than pixels"
    f" a side, at most {MOST_CHANNELS}"
)


class Scale(NamedTuple):
    """The scale of numbers as labels: a label is a number minus `mean`, divided by
    `std`.
    """

    mean: float
    std: float

    @staticmethod
    def of(numbers: np.ndarray) -> "Scale":
        """The mean and the standard deviation of the numbers, which is 1 if they are
        all equal.
        """
        return Scale(float(numbers.mean()), float(numbers.std()) or 1.0)

    def labels(self, numbers: np.ndarray) -> np.ndarray:
        """Labels float32 of numbers."""
        return ((numbers - self.mean) / self.std).astype(np.float32)

    def numbers(self, labels: Any) -> Any:
        """Numbers of labels, the inverse of `labels`."""
        return labels * self.std + self.mean

    def text(self, number: float) -> str:
        """A number with decimals down to a hundredth of the deviation, without zeros at
        the end.
        """
        digits = max(0, 2 - math.floor(math.log10(self.std)))
        text = f"{round(number, digits) + 0.0:.{digits}f}"
        return text.rstrip("0").rstrip(".") if digits else text


UNSCALED = Scale(0.0, 1.0)
"""The scale of numbers that are labels as they are."""


class Images(Protocol):
    """Labelled images, in memory or left in their files."""

    labels: Tensor
    """int64 (N,), bool (N, classes) for several labels an image, float32 (N,) for
    numbers, or masks uint8 (N, H, W).
    """
    left_out: tuple[SkippedFile, ...]
    """Files that could not be read."""
    groups: Tensor | None
    """The number of each image's group, int64 (N,), on the CPU; None without groups."""

    @property
    def image_size(self) -> int: ...
    @property
    def n_channels(self) -> int: ...
    def to(self, device: torch.device) -> Self: ...
    def fingerprint(self) -> str:
        """A hash that is equal for equal data."""

    def read(self, parts: Sequence[Tensor]) -> Generator[Batch]:
        """Yield a batch of the images at the indices of each part."""

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def device(self) -> torch.device:
        return self.labels.device

    def opened(self) -> "Images":
        """The images themselves, like LazySplit.opened."""
        return self

    def once(self, batch_size: int) -> Generator[Batch]:
        """Yield every image once, in order; the last batch may be smaller.

        Args:
            batch_size: Number of images in a batch.
        """
        return self.read(torch.arange(len(self), device=self.device).split(batch_size))

    def batches(
        self, order: Tensor, batch_size: int, start: int = 0
    ) -> Generator[Batch]:
        """Yield batches of exactly batch_size images.

        Args:
            order: Indices of the images (n,).
            batch_size: Number of images in a batch.
            start: The first batch that is read.
        """
        return self.read(order.split(batch_size)[start : len(order) // batch_size])

    def mean_and_std(self) -> tuple[Colors, Colors]:
        """Mean and deviation of each channel over all pixels, in [0, 1].

        They have 6 digits; a deviation of 0 becomes 1.
        """
        return mean_and_std(images for images, _ in self.once(IMAGES_PER_SUM))

    def mean_color(self) -> Colors:
        return self.mean_and_std()[0]


@dataclass(frozen=True, repr=False)
class LabelledImages(Images):
    """Images in memory, with their labels.

    Other forms are converted. Raises DataError for anything else.
    """

    images: Tensor
    """uint8 (N, C, H, W). Given as floating point in [0, 1], channels last, or an
    array, they are converted.
    """
    labels: Tensor
    """int64 (N,), bool (N, classes) for several labels an image, masks uint8 (N, H, W),
    in which 255 is ignored, or numbers float32 (N,), which a `Scale` has standardized.
    Given as any integer type, as any floating point, or as a matrix of 0 and 1, they
    are converted.
    """
    left_out: tuple[SkippedFile, ...] = ()
    """Files that could not be read."""
    groups: Tensor | None = None
    """The number of each image's group, int64 (N,), which splits keep together."""

    def __post_init__(self) -> None:
        images = checked_images(self.images)
        object.__setattr__(self, "images", images)
        labels = checked_labels(self.labels, (*images.shape,))
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        size = "x".join(str(length) for length in self.images.shape[1:])
        return f"LabelledImages({len(self)} images of {size}, {self.device})"

    @property
    def image_size(self) -> int:
        return self.images.shape[-1]

    @property
    def n_channels(self) -> int:
        return self.images.shape[1]

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(
            self.images.to(device), self.labels.to(device), self.left_out, self.groups
        )

    def read(self, parts: Sequence[Tensor]) -> Generator[Batch]:
        for indices in parts:
            yield self.images[indices], self.labels[indices]

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


@dataclass(eq=False)
class LazySplit:
    """The test split, read when it is first needed, and kept."""

    read: Callable[[], Images] = field(repr=False)
    """Reads the images."""
    n_known: int | None = None
    """Number of images, if known without opening a file."""
    _images: Images | None = field(default=None, repr=False)

    def opened(self) -> Images:
        if self._images is None:
            self._images = self.read()
        return self._images

    def to(self, device: torch.device) -> "LazySplit":
        read = self.read if self._images is None else self.opened
        return LazySplit(lambda: read().to(device), self.n_known)

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return () if self._images is None else self._images.left_out


@dataclass(frozen=True)
class _Data:
    """What SearchData and EvaluationData share.

    Raises DataError for images and labels that do not fit together.
    """

    name: str
    """The name of the data, for messages and reports."""
    class_names: tuple[str, ...]
    """By label; of numbers, one name for what they mean."""
    train: Images
    """The training images."""
    scale: Scale = field(default=UNSCALED, kw_only=True)
    """The scale of numbers as labels."""
    not_images: tuple[SkippedFile, ...] = field(default=(), kw_only=True)
    """Other files that were found among the images."""
    facts: tuple[str, ...] = field(default=(), kw_only=True)
    """Sentences on how the data were read."""
    listing: tuple[Any, ...] | None = field(default=None, kw_only=True, repr=False)
    """The pools of the images of a search or of a test; None for the caller's own
    images and for a data set by name.
    """
    train_pool: Any = field(default=None, kw_only=True, repr=False)
    """The pool of the training images, likewise."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", tuple(map(str, self.class_names)))
        n_classes = len(self.class_names)
        shapes = {}
        for name, images in self.parts.items():
            # The class is checked, because an attribute of a test split that is not
            # read yet could read it.
            if isinstance(images, Tensor) or not hasattr(type(images), "to"):
                raise DataError(
                    f"the {name} images must be hba.data.LabelledImages, got"
                    f" {type(images).__name__}"
                )
            if not isinstance(images, LabelledImages):
                continue
            labels = images.labels.cpu()
            task = task_of(labels)
            shapes[name] = (*images.images.shape[1:], task.name)
            if task.has_numbers and n_classes != 1:
                raise DataError(
                    "numbers as labels must have one name in class_names, for what"
                    f" they mean, got {n_classes}"
                )
            if not task.fits(labels, n_classes):
                rule = (
                    f"labels must be 0 to {n_classes - 1}, the numbers of the"
                    f" {n_classes} class names"
                )
                shown = first_of(list(map(str, task.present(labels)))) or "none"
                raise DataError(
                    f"{rule}, but the {name} images have the labels {shown}"
                )
        if len(set(shapes.values())) > 1:
            raise DataError(
                f"all images must have one shape and one kind of labels, got {shapes}"
            )

    def words_of(self, label: Tensor) -> str:
        """The number, or the classes, of a label (...)."""
        task = task_of(label[None])
        if task.has_numbers:
            return self.scale.text(self.scale.numbers(float(label)))
        return ", ".join(
            self.class_names[number] for number in task.present(label[None])
        )

    @property
    def parts(self) -> Mapping[str, Any]:
        """The two splits by name, train first."""
        return {
            name: getattr(self, name)
            for name in ("train", "val", "test")
            if hasattr(self, name)
        }

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Every file found to be unusable so far, with the reason; each once."""
        unread = [item for images in self.parts.values() for item in images.left_out]
        return tuple(dict.fromkeys([*self.not_images, *unread]))

    def in_color(self) -> Self:
        """Repeat the single channel of images in memory three times.

        Networks by name take colour images.
        """

        def colored(images: Any) -> Any:
            is_grey = isinstance(images, LabelledImages) and images.n_channels == 1
            return (
                replace(images, images=images.images.repeat(1, 3, 1, 1))
                if is_grey
                else images
            )

        return replace(
            self, **{name: colored(images) for name, images in self.parts.items()}
        )

    def to(self, device: torch.device) -> Self:
        return replace(
            self, **{name: images.to(device) for name, images in self.parts.items()}
        )


@dataclass(frozen=True)
class SearchData(_Data):
    """The data that a policy search may see. They have no test split.

    Raises DataError for images and labels that do not fit together.
    """

    val: Images
    """The validation images."""
    test_images: int | None = field(default=None, kw_only=True)
    """How many images are kept for the test; 0 if the test part is separate, None if it
    is unknown.
    """
    has_own_val: bool = field(default=False, kw_only=True)
    """Whether the validation images are separate too, so that they may be of another
    kind than the training images.
    """


@dataclass(frozen=True)
class EvaluationData(_Data):
    """The data of a policy evaluation: all training images, and the test split."""

    test: Images | LazySplit
    """The test split, which is read at the very end."""

    @property
    def n_test(self) -> int | None:
        """Number of test images; None if it is unknown before they are read."""
        return self.test.n_known if isinstance(self.test, LazySplit) else len(self.test)


def hashes_of(
    listing: Sequence[Any] | None, parts: Sequence[Any]
) -> tuple[Kind, Iterable[ImageHash]] | None:
    """The kind and the hashes of images in pools or in memory; None for others.

    Args:
        listing: The pools of the images; None if they were not listed.
        parts: The images, which are hashed if they are in memory.
    """
    if listing is not None:
        return listing[0].items.hashed_by, all_hashes(listing)
    if not all(isinstance(split, LabelledImages) for split in parts):
        return None
    return "pixels", (
        hash_of_pixels(image) for split in parts for image in split.images.cpu().numpy()
    )


def mean_and_std(parts: Iterable[Tensor]) -> tuple[Colors, Colors]:
    """Images.mean_and_std over all parts (b, C, H, W).

    The sums are exact, so it does not matter where parts end.
    """
    total = torch.zeros((), dtype=torch.int64)
    n_pixels = 0
    for batch in parts:
        levels = batch.to(torch.int32)
        total = total + torch.stack(
            [levels.sum(dim=(0, 2, 3)), (levels * levels).sum(dim=(0, 2, 3))]
        )
        n_pixels += batch.numel() // batch.shape[1]
    mean, mean_square = total.cpu().double() / n_pixels
    std = (mean_square - mean**2).clamp(min=0).sqrt()
    return (
        tuple(round(channel / 255, 6) for channel in mean.tolist()),
        tuple(round(channel / 255, 6) or 1.0 for channel in std.tolist()),
    )


def checked_images(images: Any) -> Tensor:
    """Round images to uint8 (N, C, H, W).

    Args:
        images: An array of one of the SHAPES, uint8 or floats in [0, 1].

    Raises:
        DataError: For others.
    """
    tensor = as_tensor(images, "images")
    tensor = tensor[:, None] if tensor.ndim == 3 else tensor
    axis = channels_axis(tuple(tensor.shape))
    is_float = tensor.is_floating_point() and bool(
        ((tensor >= 0) & (tensor <= 1)).all()
    )
    if axis is None or not (is_float or tensor.dtype == torch.uint8):
        rule = (
            f"the shape {SHAPES}, and be uint8 or floating point in [0, 1], before any"
            " normalization"
        )
        raise DataError(
            f"images must have {rule}, got {tensor.dtype} of {tuple(np.shape(images))}"
        )
    tensor = tensor.permute(0, 3, 1, 2).contiguous() if axis == 3 else tensor
    return (tensor.float() * 255).round().to(torch.uint8) if is_float else tensor


def channels_axis(shape: Sequence[int]) -> int | None:
    """The axis of the channels, 1 or 3; None if that is unclear.

    It is the one of length 1 or 3, or else the shorter one.
    """
    if len(shape) != 4 or 0 in shape[1:]:
        return None
    if usual := [axis for axis in (1, 3) if shape[axis] in CHANNELS]:
        return usual[0]
    fewest = min(shape[1], shape[3])
    is_clear = shape[1] != shape[3] and fewest <= MOST_CHANNELS and fewest < shape[2]
    if not is_clear:
        return None
    return 1 if shape[1] == fewest else 3
