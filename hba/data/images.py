"""Labelled images in memory, and what a search and an evaluation may see of a data set."""

import hashlib
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from hba.data.labels import as_tensor_of, check_labels_of, checked_labels
from hba.data.leakage import Listing
from hba.data.reading import Levels, SkippedFile, without_doubles
from hba.errors import DataError
from hba.utils.text import first_of

OnRead = Callable[[int, int], None]
"""Called with (images read, images to read)."""
Batch = tuple[Tensor, Tensor]
"""Images uint8 (B, C, H, W) and labels, int64 (B,) or bool (B, classes), on the device."""
Colors = tuple[float, ...]

CPU = torch.device("cpu")
ALL = slice(None)
IMAGES_PER_SUM = 256
CHANNELS = (1, 3)
"""Of pictures: grey, or red, green and blue."""
MOST_CHANNELS = 64


class Measurable(Protocol):
    """Labelled images that a network can be measured on.

    left_out: files that could not be read. once: every image, once, in order; the last batch may be smaller. share:
    which batches, the others are not read. close: ends everything that still reads ahead.
    """

    @property
    def device(self) -> torch.device: ...
    @property
    def image_size(self) -> int: ...
    @property
    def labels(self) -> Tensor: ...
    @property
    def left_out(self) -> tuple[SkippedFile, ...]: ...
    def __len__(self) -> int: ...
    def to(self, device: torch.device) -> Self: ...
    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]: ...
    def close(self) -> None: ...


class Images(Measurable, Protocol):
    """Labelled images that a network can be trained on too, in memory or left in their files.

    batches: the images at the indices `order` (n,), in batches of exactly batch_size, from batch number `start` on.
    mean_color, std_color: of each channel over all pixels, in [0, 1], rounded to 6 digits; a deviation of 0 becomes 1.
    fingerprint: a hash that is equal for equal data.
    """

    @property
    def n_channels(self) -> int: ...
    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]: ...
    def mean_color(self) -> Colors: ...
    def std_color(self) -> Colors: ...
    def fingerprint(self) -> str: ...


@dataclass(frozen=True, repr=False)
class LabelledImages:
    """Images in memory, uint8 (N, C, H, W); labels int64 (N,), or bool (N, classes) for several labels an image.

    Images may be given as floating point in [0, 1], channels last, or as an array, and labels of any integer type, a
    matrix as 0 and 1: they are converted. DataError for anything else. left_out: files that could not be read.
    """

    images: Tensor
    labels: Tensor
    left_out: tuple[SkippedFile, ...] = ()

    def __post_init__(self) -> None:
        images = checked_images(self.images)
        object.__setattr__(self, "images", images)
        object.__setattr__(self, "labels", checked_labels(self.labels, len(images)))

    def __repr__(self) -> str:
        size = "x".join(str(length) for length in self.images.shape[1:])
        return f"LabelledImages({len(self)} images of {size}, {self.device})"

    @property
    def device(self) -> torch.device:
        return self.images.device

    @property
    def image_size(self) -> int:
        return self.images.shape[-1]

    @property
    def n_channels(self) -> int:
        return self.images.shape[1]

    def __len__(self) -> int:
        return len(self.labels)

    def in_color(self) -> "LabelledImages":
        """Repeat a single channel three times, as networks by name take colour images."""
        return self if self.n_channels != 1 else replace(self, images=self.images.repeat(1, 3, 1, 1))

    def to(self, device: torch.device) -> "LabelledImages":
        return LabelledImages(self.images.to(device), self.labels.to(device), self.left_out)

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        parts = self.images.split(batch_size), self.labels.split(batch_size)
        yield from zip(*(part[share] for part in parts), strict=True)

    def batches(self, order: Tensor, batch_size: int, start: int = 0) -> Generator[Batch]:
        for number in range(start, len(order) // batch_size):
            chosen = order[number * batch_size :][:batch_size]
            yield self.images[chosen], self.labels[chosen]

    def close(self) -> None:
        """Nothing is being read."""

    def mean_color(self) -> Colors:
        return mean_and_std(self.images.split(IMAGES_PER_SUM))[0]

    def std_color(self) -> Colors:
        return mean_and_std(self.images.split(IMAGES_PER_SUM))[1]

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for tensor in (self.images, self.labels):
            digest.update(str(tuple(tensor.shape)).encode())
            digest.update(tensor.cpu().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]


@dataclass(frozen=True, eq=False, repr=False)
class LazySplit:
    """The test split: its images are read when they are first asked for, and kept from then on.

    n_known: number of images, where it is known without opening their file. is_streamed: whether they will stay in
    their files. not_images: other files that were found among them.
    """

    read: Callable[[], Images]
    n_known: int | None
    image_size: int
    device: torch.device = CPU
    is_streamed: bool = False
    not_images: tuple[SkippedFile, ...] = ()
    _kept: list[Images] = field(default_factory=list)

    def __repr__(self) -> str:
        count = "images" if self.n_known is None else f"{self.n_known} images"
        return f"LazySplit({count} of {self.image_size} pixels, {'read' if self._kept else 'not read yet'})"

    def opened(self) -> Images:
        if not self._kept:
            self._kept.append(self.read().to(self.device))
        return self._kept[0]

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        return (*self.not_images, *(item for images in self._kept for item in images.left_out))

    def __len__(self) -> int:
        return len(self.opened())

    def to(self, device: torch.device) -> "LazySplit":
        return replace(self, device=device, _kept=[images.to(device) for images in self._kept])

    @property
    def labels(self) -> Tensor:
        return self.opened().labels

    def once(self, batch_size: int, share: slice = ALL) -> Generator[Batch]:
        return self.opened().once(batch_size, share)

    def close(self) -> None:
        for images in self._kept:
            images.close()


@dataclass(frozen=True, repr=False)
class SearchData:
    """What a policy search may see. There is no test split in it.

    class_names: by label. not_images: other files that were found among the images. facts: sentences on how the data
    were read. levels: those that become black and white in images of more than 8 bits. test_images: how many are kept
    for the test; 0 where there is a test part apart, None where nothing is known of one. listing: of images that are
    not the caller's own. DataError for images and labels that do not fit together.
    """

    name: str
    class_names: tuple[str, ...]
    train: Images
    val: Images
    not_images: tuple[SkippedFile, ...] = ()
    facts: tuple[str, ...] = ()
    levels: Levels | None = None
    test_images: int | None = None
    listing: Listing | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", check_parts(self.class_names, training=self.train, validation=self.val))

    def __repr__(self) -> str:
        classes = f"{len(self.class_names)} classes: {first_of(self.class_names, 5)}"
        return f"SearchData({self.name!r}, {classes}, train={self.train!r}, val={self.val!r})"

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Every file that is not used, as far as it was tried, with the reason."""
        return without_doubles(self.not_images, self.train.left_out, self.val.left_out)

    def in_color(self) -> "SearchData":
        """Images in memory with three channels."""
        return replace(self, train=_in_color(self.train), val=_in_color(self.val))

    def to(self, device: torch.device) -> "SearchData":
        return replace(self, train=self.train.to(device), val=self.val.to(device))

    def close(self) -> None:
        """End everything that still reads images ahead."""
        self.train.close()
        self.val.close()


@dataclass(frozen=True, repr=False)
class EvaluationData:
    """What a policy evaluation sees: all images for training, and the test split, which is read at the very end.

    The other fields are as in SearchData; listing tells where the test images come from.
    """

    name: str
    class_names: tuple[str, ...]
    train: Images
    test: Images | LazySplit
    not_images: tuple[SkippedFile, ...] = ()
    facts: tuple[str, ...] = ()
    levels: Levels | None = None
    listing: Listing | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "class_names", check_parts(self.class_names, training=self.train, test=self.test))

    def __repr__(self) -> str:
        classes = f"{len(self.class_names)} classes: {first_of(self.class_names, 5)}"
        return f"EvaluationData({self.name!r}, {classes}, train={self.train!r}, test={self.test!r})"

    @property
    def left_out(self) -> tuple[SkippedFile, ...]:
        """Every file that is not used, with the reason; broken test images once they are read."""
        return without_doubles(self.not_images, self.train.left_out, self.test.left_out)

    @property
    def n_test(self) -> int | None:
        """Number of test images; None where only reading them would tell."""
        return self.test.n_known if isinstance(self.test, LazySplit) else len(self.test)

    @property
    def is_streamed(self) -> bool:
        """Whether images of a split stay in their files, as far as that is known before they are read."""
        test = self.test.is_streamed if isinstance(self.test, LazySplit) else not isinstance(self.test, LabelledImages)
        return not isinstance(self.train, LabelledImages) or test

    def in_color(self) -> "EvaluationData":
        """Images in memory with three channels."""
        test = self.test if isinstance(self.test, LazySplit) else _in_color(self.test)
        return replace(self, train=_in_color(self.train), test=test)

    def to(self, device: torch.device) -> "EvaluationData":
        return replace(self, train=self.train.to(device), test=self.test.to(device))


def _in_color(images: Images) -> Images:
    return images.in_color() if isinstance(images, LabelledImages) else images


def check_parts(class_names: Sequence[str], **parts: object) -> tuple[str, ...]:
    """The class names; DataError where they do not fit the labels of the parts, or the parts do not fit each other."""
    if isinstance(class_names, str) or not all(isinstance(name, str) for name in class_names):
        raise DataError(f"class_names must be a list of names, one for each class, got {class_names!r}")
    names = tuple(class_names)
    for name, part in parts.items():
        # The class is asked, because looking at attributes of a LazySplit would read its images.
        if isinstance(part, Tensor) or not hasattr(type(part), "to"):
            raise DataError(f"the {name} images must be hba.data.LabelledImages, got {type(part).__name__}")
    kept = {name: part for name, part in parts.items() if isinstance(part, LabelledImages)}
    check_labels_of(names, {name: part.labels for name, part in kept.items()}, are_all=len(kept) == len(parts))
    shapes = {name: tuple(part.images.shape[1:]) for name, part in kept.items()}
    if len(set(shapes.values())) > 1:
        shown = " and ".join(f"{shape} ({name})" for name, shape in shapes.items())
        raise DataError(f"all images must have one shape, got {shown}")
    return names


def mean_and_std(parts: Iterable[Tensor]) -> tuple[Colors, Colors]:
    """Mean and standard deviation of each channel over all pixels of all parts (b, C, H, W), as Images has them.

    The sums are exact, so it does not matter where the parts end.
    """
    total, n_pixels = torch.zeros((), dtype=torch.int64), 0
    for part in parts:
        levels = part.to(torch.int32)
        total = total + torch.stack([levels.sum(dim=(0, 2, 3)), (levels * levels).sum(dim=(0, 2, 3))])
        n_pixels += part.numel() // part.shape[1]
    mean, mean_square = total.double() / n_pixels
    std = (mean_square - mean**2).clamp(min=0).sqrt()
    return (
        tuple(round(channel / 255, 6) for channel in mean.tolist()),
        tuple(round(channel / 255, 6) or 1.0 for channel in std.tolist()),
    )


def checked_images(images: Any) -> Tensor:
    """As uint8 (N, C, H, W).

    images: a tensor or array, uint8, or floating point in [0, 1], which is rounded to 8 bits; (N, C, H, W), (N, H, W,
    C), as channels_axis decides, or (N, H, W). DataError for anything else.
    """
    tensor = as_tensor_of(images, "images")
    tensor = tensor[:, None] if tensor.ndim == 3 else tensor
    axis = channels_axis(tuple(tensor.shape), first=1)
    if axis is None:
        raise DataError(
            "images must have the shape (N, C, H, W) or (N, H, W, C), with 1, 3 or fewer channels than pixels a side, "
            f"at most {MOST_CHANNELS}, got {tuple(np.shape(images))}"
        )
    if axis == 3:
        tensor = tensor.permute(0, 3, 1, 2).contiguous()
    if tensor.dtype == torch.uint8:
        return tensor
    if not (tensor.is_floating_point() and ((tensor >= 0) & (tensor <= 1)).all()):
        raise DataError(
            "images must be uint8, or floating point in [0, 1], got another type or range in "
            f"{str(tensor.dtype).removeprefix('torch.')}; give them as they are before normalisation"
        )
    return (tensor.float() * 255).round().to(torch.uint8)


def channels_axis(shape: Sequence[int], first: int) -> int | None:
    """1 or 3: which axis of images of this shape has the channels; None where neither can.

    first: the axis that is tried first for 1 or 3 channels, as pictures have. Otherwise the channels are the shorter of
    the two axes, with at most MOST_CHANNELS and fewer than pixels a side.
    """
    if len(shape) != 4 or 0 in shape[1:]:
        return None
    for axis in (first, 4 - first):
        if shape[axis] in CHANNELS:
            return axis
    before, after = shape[1], shape[3]
    if before == after or min(before, after) > MOST_CHANNELS or min(before, after) >= shape[2]:
        return None
    return 1 if before < after else 3
