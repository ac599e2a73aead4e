"""Images with masks: a folder with images/* and masks/*, or with train/images/*,
train/masks/* and optionally the same of val and test.

A mask has the name of its image, except for the ending, and its size. Its pixels are
numbers of classes: grey levels, or indices of a palette. 255 is ignored, unless the
masks have only 0 and 255, which are then the classes 0 and 1. The names of the classes
are the lines of classes.txt, if the folder has it. Masks in colors need a file that
lists the colors with the names of their classes.
"""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.utils import draw_segmentation_masks

from hba.data.folder import files_in, subfolders
from hba.data.labels import composed, split_called
from hba.data.pool import N_READERS, FileItems, Pool, Source
from hba.data.reading import (
    Levels,
    SkippedFile,
    fitted_whole,
    opened,
    read_image,
    resized_mask,
    upright_size,
    whole_mask,
)
from hba.errors import DataError
from hba.tasks.segmentation import IGNORED
from hba.utils.files import read_text, reason_of
from hba.utils.text import first_of

IMAGES = "images"
MASKS = "masks"
CLASSES_NAME = "classes.txt"
"""The file with the names of the classes, one in each line."""
WHITE = 255
BLACK_AND_WHITE = {0, WHITE}
"""The numbers of masks that are black and white pictures."""
OPACITY = 0.6
"""Of the colors on an image, in [0, 1]."""
LOSSY = ("JPEG", "WEBP")
"""Formats that change the numbers in masks."""
IGNORED_NAME = "ignored"
"""In a file of colors, the name of the class of ignored pixels."""
COLOR_LINE = re.compile(r"(\d+)[\s,]+(\d+)[\s,]+(\d+)[\s,]+(\S.*)")
"""A line of a file of colors."""

Folders = Mapping[str, tuple[Path, Path]]
"""The folders of images and of masks, by split."""


class Pair(NamedTuple):
    """The files of an image and of its mask."""

    image: Path
    mask: Path


class MaskColors(NamedTuple):
    """The colors of the classes in masks."""

    class_names: tuple[str, ...]
    numbers: Mapping[int, int]
    """The class of each color, which is 65536 red + 256 green + blue."""

    @staticmethod
    def read(file: Path) -> "MaskColors":
        """Read a file with a line for each color: three levels and the name of its
        class, such as `64 128 64 grass`.

        Classes are numbered in the order of their names in the file; colors of one name
        are one class. The name `ignored` is no class.

        Raises:
            DataError: For another file.
        """
        try:
            lines = read_text(file).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(
                f"cannot read {file} ({reason_of(error)}); give a text file"
            ) from None
        names: dict[str, int] = {}
        numbers: dict[int, int] = {}
        for place, line in enumerate(map(str.strip, lines), 1):
            match = COLOR_LINE.fullmatch(line)
            levels = [int(level) for level in match.groups()[:3]] if match else [0]
            if line and (match is None or max(levels) > WHITE):
                raise DataError(
                    f"line {place} of {file} must have three levels from 0 to {WHITE}"
                    f" and a class, such as 64 128 64 grass, got {line!r:.60}"
                )
            if match is None:
                continue
            color = _color_number(np.array(levels))
            if color in numbers:
                raise DataError(
                    f"line {place} of {file} has the color of an earlier line; remove"
                    f" one: {line!r:.60}"
                )
            name = composed(match[4].strip())
            number = IGNORED
            if name != IGNORED_NAME:
                number = names.setdefault(name, len(names))
            numbers[color] = number
        if not 2 <= len(names) <= IGNORED:
            raise DataError(
                f"{file} must have colors of 2 to {IGNORED} classes, got {len(names)}"
            )
        return MaskColors(tuple(names), numbers)

    def of(self, picture: Image.Image) -> np.ndarray:
        """The class of each pixel, uint8 (H, W). DataError for another color."""
        colors = _color_number(np.asarray(picture.convert("RGB")))
        found, places = np.unique(colors, return_inverse=True)
        if unknown := [color for color in found.tolist() if color not in self.numbers]:
            red, green, blue = unknown[0] >> 16, unknown[0] >> 8 & 255, unknown[0] & 255
            raise DataError(
                f"it has the color {red} {green} {blue}, which is not listed: add it to"
                " --mask-colors, with a class or as ignored; without --mask-colors,"
                " masks have numbers of classes"
            )
        numbers = np.array([self.numbers[color] for color in found.tolist()])
        return numbers.astype(np.uint8)[places].reshape(colors.shape)


def _color_number(levels: np.ndarray) -> Any:
    """65536 red + 256 green + blue, of levels (..., 3)."""
    red, green, blue = np.moveaxis(levels.astype(np.int64), -1, 0)
    return (red << 16) + (green << 8) + blue


class MaskedFiles(FileItems):
    """Image files that are fitted as a whole, because all of their pixels count."""

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        return read_image(self.file(number), image_size, levels, fitted_whole)


def has_masks(folder: Path) -> bool:
    """Whether a folder holds images with masks, by the names of the folders in it."""
    splits = (path for path in folder.glob("*") if split_called(path.name))
    return any(
        (place / IMAGES).is_dir() and (place / MASKS).is_dir()
        for place in (folder, *splits)
    )


def masks_source(
    folder: Path, masks: Path | None, colors_file: Path | None, image_size: int
) -> Source:
    """A folder of images with masks as a source. The masks of a split are read at once,
    and its images when they are needed.

    Args:
        folder: As the module describes it; with `masks`, a folder of images, or of such
            folders for train, val and test.
        masks: A folder of masks, likewise.
        colors_file: The colors of the classes; None for masks of numbers.
        image_size: Side in pixels to which masks are fitted.

    Raises:
        DataError: For an unusable folder, and for masks that do not fit.
    """
    folders = _folders_of(folder, masks)
    colors = None if colors_file is None else MaskColors.read(colors_file)

    def part_of(split: str) -> MaskPart:
        pairs, unused = _pairs(*folders[split])
        items = MaskedFiles.of(folder, [pair.image for pair in pairs])
        return MaskPart(items, _read_masks(pairs, image_size, colors), tuple(unused))

    parts = {split: partial(part_of, split) for split in folders}
    names = None if colors is None else colors.class_names
    return source_of_masks(folder, parts, image_size, names)


class Mask(NamedTuple):
    """A mask after its longer side was resized."""

    name: str
    """What messages call it."""
    pixels: np.ndarray
    """uint8 (H, W)."""
    values: set[int]
    """All numbers that it had before."""


class MaskPart(NamedTuple):
    """A split of images with masks."""

    items: FileItems
    """The images."""
    masks: Sequence[Mask]
    """Their masks, in the same order."""
    unused: tuple[SkippedFile, ...] = ()
    """Files that are not images."""


def source_of_masks(
    data: Path,
    parts: Mapping[str, Callable[[], MaskPart]],
    image_size: int,
    class_names: tuple[str, ...] | None = None,
    facts: tuple[str, ...] = (),
) -> Source:
    """Images with masks as a source.

    Args:
        data: Where they are. Its file `classes.txt` names the classes by default.
        parts: By split, train at least; that of the test is read when it is used.
        image_size: Side in pixels to which masks are fitted.
        class_names: The names of the classes, if they are known.
        facts: Sentences on how the data are read.

    Raises:
        DataError: For classes that the training masks do not have.
    """
    train = parts["train"]()
    values = set[int]().union(*(mask.values for mask in train.masks))
    is_binary = class_names is None and values == BLACK_AND_WHITE
    names = class_names or _class_names(data, n_classes_of(values))
    highest = WHITE if is_binary else len(names) - 1
    allowed = BLACK_AND_WHITE if is_binary else {*range(len(names)), IGNORED}

    def pool(part: MaskPart) -> Pool:
        for mask in part.masks:
            if wrong := mask.values - allowed:
                raise DataError(
                    f"the mask {mask.name} has the number {max(wrong)}, but the classes"
                    f" of the training masks of {data} go up to {highest}; correct it,"
                    f" or name all classes in {data / CLASSES_NAME}"
                )
        return Pool(
            part.items,
            fitted_masks([mask.pixels for mask in part.masks], image_size, is_binary),
            np.arange(len(part.masks)),
            part.unused,
        )

    if is_binary:
        facts = (*facts, "masks of 0 and 255 have the classes 0 and 1")
    return Source(
        str(data),
        names,
        pool(train),
        pool(parts["val"]()) if "val" in parts else None,
        (lambda: pool(parts["test"]())) if "test" in parts else None,
        facts=facts,
    )


def n_classes_of(values: Set[int]) -> int:
    """The number of classes of training masks with these numbers."""
    if values == BLACK_AND_WHITE:
        return 2
    return 1 + max(values - {IGNORED}, default=0)


def fitted_masks(masks: Sequence[np.ndarray], side: int, is_binary: bool) -> np.ndarray:
    """Masks as labels, uint8 (N, side, side).

    Args:
        masks: As resized_mask returns them.
        side: In pixels.
        is_binary: Whether 255 is the class 1.
    """
    if is_binary:
        masks = [(mask == WHITE).astype(np.uint8) for mask in masks]
    return np.stack([whole_mask(mask, side, IGNORED) for mask in masks])


def _folders_of(folder: Path, masks: Path | None) -> Folders:
    """The folders of each split. DataError without images or masks."""
    if masks is None and not (folder / IMAGES).is_dir():
        folders = {
            role: (path / IMAGES, path / MASKS)
            for path in subfolders(folder)
            if (role := split_called(path.name))
        }
    else:
        images = folder if masks is not None else folder / IMAGES
        masks = masks or folder / MASKS
        folders = {
            role: (path, masks / path.name)
            for path in subfolders(images)
            if (role := split_called(path.name))
        } or {"train": (images, masks)}
    for role, places in folders.items():
        for place in places:
            if role not in ("train", "val", "test") or not place.is_dir():
                raise DataError(
                    f"{folder} must hold the folders {IMAGES} and {MASKS}, or train,"
                    f" val and test with both; {place} is not one of them, or missing"
                )
    if "train" not in folders:
        raise DataError(
            f"{folder} must have images of a split train, got {', '.join(folders)}"
        )
    return folders


def _pairs(images: Path, masks: Path) -> tuple[list[Pair], list[SkippedFile]]:
    """The images with their masks, and files that are not images.

    Raises:
        DataError: For an image without a mask, and a mask without an image.
    """
    files, unused = files_in(images)
    mask_files, other_files = files_in(masks)
    by_name = _by_name(masks, mask_files)
    names = _by_name(images, files)
    if not names:
        raise DataError(f"{images} holds no images; give a folder with images")
    for missing, kind, place in (
        (names.keys() - by_name.keys(), "mask", masks),
        (by_name.keys() - names.keys(), "image", images),
    ):
        if missing:
            shown = first_of(sorted(missing))
            raise DataError(
                f"every image needs a mask of its name, and every mask an image, but"
                f" {place} has no {kind} {shown}; add or remove them"
            )
    pairs = [Pair(path, by_name[name]) for name, path in names.items()]
    return pairs, [*unused, *other_files]


def _by_name(folder: Path, paths: Sequence[Path]) -> dict[str, Path]:
    """The files by their path below a folder, without the ending. DataError for two of
    one name.
    """
    by_name: dict[str, Path] = {}
    for path in paths:
        name = composed(path.relative_to(folder).with_suffix("").as_posix())
        if name in by_name:
            raise DataError(
                f"{path} and {by_name[name]} have one name, so it is not clear which"
                " belong together; rename one"
            )
        by_name[name] = path
    return by_name


def _read_masks(
    pairs: Sequence[Pair], image_size: int, colors: MaskColors | None
) -> list[Mask]:
    read = partial(_read_mask, image_size=image_size, colors=colors)
    with ThreadPoolExecutor(N_READERS) as threads:
        return [*threads.map(read, pairs)]


def _read_mask(pair: Pair, image_size: int, colors: MaskColors | None) -> Mask:
    try:
        size = upright_size(pair.image)
        with opened(pair.mask) as mask:
            if mask.format in LOSSY:
                raise DataError(f"{mask.format} changes numbers of classes; use PNG")
            numbers = numbers_of(mask if colors is None else colors.of(mask), size)
    except DataError as error:
        raise DataError(
            f"cannot use the mask {pair.mask} ({error}); mend it, or remove it with"
            " its image"
        ) from None
    return mask_of(str(pair.mask), numbers, image_size)


def mask_of(name: str, numbers: np.ndarray, image_size: int) -> Mask:
    """A mask uint8 (H, W), of any size."""
    values = {*np.unique(numbers).tolist()}
    return Mask(name, resized_mask(numbers, image_size), values)


def is_mask(label: Any) -> bool:
    """Whether the label of an image is a mask instead of a number."""
    return isinstance(label, Image.Image) or getattr(label, "ndim", 0) >= 2


def numbers_of(mask: Any, size: tuple[int, int]) -> np.ndarray:
    """The class of each pixel, uint8 (H, W).

    Args:
        mask: A PIL image, or an array or a tensor (H, W) or (1, H, W).
        size: Width and height of its image.

    Raises:
        DataError: With the reason only.
    """
    values = np.asarray(mask)
    if values.ndim == 3 and values.shape[0] == 1:
        values = values[0]
    if values.shape[:2] != (size[1], size[0]):
        raise DataError(
            f"it has {values.shape[1]} x {values.shape[0]} pixels, but its image"
            f" {size[0]} x {size[1]}"
        )
    if values.ndim == 3:
        # The last of two or four channels says what is transparent.
        n_colors = values.shape[2] - (values.shape[2] in (2, 4))
        if (values[..., :n_colors] != values[..., :1]).any():
            raise DataError(
                "it has colors instead of numbers of classes; list them: --mask-colors"
            )
        values = values[..., 0]
    if values.dtype == bool:
        return values.astype(np.uint8)
    if values.min() < 0 or values.max() > IGNORED or (values % 1).any():
        raise DataError(
            f"classes must be whole numbers from 0 to {IGNORED - 1}, got"
            f" {values.min():g} to {values.max():g}"
        )
    return values.astype(np.uint8)


def _class_names(folder: Path, n_classes: int) -> tuple[str, ...]:
    """The names of the classes, by default their numbers."""
    path = folder / CLASSES_NAME
    names = [str(number) for number in range(n_classes)]
    if path.is_file():
        try:
            lines = read_text(path).splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot read {path} ({error}); write text") from None
        names = [composed(line.strip()) for line in lines if line.strip()]
    if len(names) < max(2, n_classes):
        raise DataError(
            f"{folder} must have at least two classes, and a name for each, got"
            f" {n_classes} in the masks and {len(names)} names"
        )
    return tuple(names)


# Pictures of masks


def colors_of(n_classes: int) -> list[tuple[int, int, int]]:
    """The colors of the classes: those of PASCAL VOC, in which the first is black."""
    return [
        (_bits(number), _bits(number >> 1), _bits(number >> 2))
        for number in range(n_classes)
    ]


def _bits(number: int) -> int:
    """Every third bit of a number, the lowest as the highest bit of a byte."""
    return sum((number >> 3 * place & 1) << 7 - place for place in range(3))


def as_picture(mask: np.ndarray) -> Image.Image:
    """A mask uint8 (H, W) as an image with a palette, whose pixels are its numbers."""
    picture = Image.fromarray(mask)
    picture.putpalette([level for color in colors_of(256) for level in color])
    return picture


def overlay(image: Tensor, mask: Tensor) -> Tensor:
    """An image with its classes in colors, but for the first and for ignored pixels.

    Args:
        image: uint8 (C, H, W), C 1 or 3.
        mask: uint8 (H, W).

    Returns:
        uint8 (3, H, W).
    """
    numbers = [number for number in mask.unique().tolist() if 0 < number < IGNORED]
    image = image.expand(3, -1, -1)
    if not numbers:
        return image
    planes = torch.stack([mask == number for number in numbers])
    colors = colors_of(IGNORED)
    return draw_segmentation_masks(
        image, planes, alpha=OPACITY, colors=[colors[number] for number in numbers]
    )
