"""Masks in a file of COCO annotations: polygons or run lengths of the objects in each
image, by category.

Category k of the file, in the order of their ids, is the class k + 1; pixels of no
object have the class 0, `background`. Where objects overlap, the smaller one counts.
Crowds are ignored.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hba.data.labels import SPLITS, composed, split_called
from hba.data.masks import Mask, MaskedFiles, MaskPart, mask_of, source_of_masks
from hba.data.pool import N_READERS, Source
from hba.data.reading import upright_size
from hba.errors import DataError
from hba.tasks.segmentation import IGNORED
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import first_of

BACKGROUND = "background"
"""The name of the class of pixels without object."""
ENDING = ".json"
MOST_CATEGORIES = IGNORED - 1
"""Categories whose numbers a mask can hold."""


class _Annotations(NamedTuple):
    """The content of a file."""

    coco: Any
    """As pycocotools reads it."""
    class_names: tuple[str, ...]
    numbers: Mapping[int, int]
    """The class of each category, by its id."""
    entries: Mapping[str, Mapping[str, Any]]
    """Those of the images, by file_name."""
    sizes: Mapping[str, tuple[int, int]]
    """Width and height of the images, by file_name."""

    @staticmethod
    def read(folder: Path, file: Path) -> "_Annotations":
        """Read a file. DataError if it is unusable, or names files outside of the
        folder.
        """
        api = import_extra("pycocotools.coco", "coco", f"the annotations {file}")
        try:
            # It prints its progress.
            with contextlib.redirect_stdout(io.StringIO()):
                coco = api.COCO(str(file))
            categories = coco.loadCats(sorted(coco.getCatIds()))
            numbers = {entry["id"]: place for place, entry in enumerate(categories, 1)}
            names = (
                BACKGROUND,
                *(composed(str(entry["name"])) for entry in categories),
            )
            images = coco.loadImgs(coco.getImgIds())
            entries = {composed(entry["file_name"]): entry for entry in images}
            sizes = {
                name: (int(entry["width"]), int(entry["height"]))
                for name, entry in entries.items()
            }
        except Exception as error:
            # Any program may have written the file.
            raise DataError(
                f"cannot read the annotations {file} ({reason_of(error)}); give a JSON"
                " file of COCO's format"
            ) from None
        n_categories = len(categories)
        if not 0 < n_categories <= MOST_CATEGORIES or not entries:
            raise DataError(
                f"{file} must have images and 1 to {MOST_CATEGORIES} categories, got"
                f" {len(entries)} and {n_categories}"
            )
        if len({*names}) < len(names) or len(entries) < len(images):
            raise DataError(
                f"{file} must have categories of different names, none of them"
                f" {BACKGROUND!r}, and one entry for each file_name"
            )
        if outside := [name for name in entries if not _is_below(name)]:
            raise DataError(
                f"every file_name of {file} must be a path below {folder}, got"
                f" {outside[0]!r}"
            )
        return _Annotations(coco, names, numbers, entries, sizes)


def coco_source(folder: Path, file: Path, image_size: int) -> Source:
    """Images with the annotations of a COCO file as a source.

    Images have their `file_name` below the folder. If all of these begin with folders
    called train, val or test, these are the splits.

    Args:
        folder: Of the images.
        file: The annotations.
        image_size: Side in pixels to which masks are fitted.

    Raises:
        DataError: For an unusable file, and for images that are missing or of another
            size than in the file.
    """
    annotations = _Annotations.read(folder, file)
    coco, entries = annotations.coco, annotations.entries
    if missing := [name for name in sorted(entries) if not (folder / name).is_file()]:
        raise DataError(
            f"{folder} lacks {len(missing)} of the {len(entries)} images of {file}:"
            f" {first_of(missing)}; give the folder to which their file_name is"
            " relative"
        )

    def part_of(names: Sequence[str]) -> MaskPart:
        def mask_of_image(name: str) -> Mask:
            path = folder / name
            width, height = annotations.sizes[name]
            if (size := upright_size(path)) != (width, height):
                raise DataError(
                    f"{path} has {size[0]} x {size[1]} pixels, but its annotations are"
                    f" for {width} x {height}; correct them, or remove it"
                )
            try:
                mask = _mask(coco, entries[name]["id"], size, annotations.numbers)
            except Exception as error:
                raise DataError(
                    f"cannot use the annotations of {path} ({reason_of(error)}); each"
                    " object needs a category and a segmentation of its image"
                ) from None
            return mask_of(name, mask, image_size)

        with ThreadPoolExecutor(N_READERS) as threads:
            masks = [*threads.map(mask_of_image, names)]
        return MaskPart(
            MaskedFiles.of(folder, [folder / name for name in names]), masks
        )

    by_split = _by_split(sorted(entries))
    if not by_split.get("train"):
        raise DataError(f"{file} must have images of a split train")
    parts = {role: partial(part_of, names) for role, names in by_split.items()}
    facts = (f"masks from {file.name}",)
    return source_of_masks(folder, parts, image_size, annotations.class_names, facts)


def _is_below(name: str) -> bool:
    """Whether a path is relative, and leads to no folder above."""
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _by_split(names: Sequence[str]) -> dict[str, list[str]]:
    """The images of each split, by their first folders; all are for training if one of
    these is no split.
    """
    by_split: dict[str, list[str]] = {}
    for name in names:
        parts = Path(name).parts
        role = split_called(parts[0]) if len(parts) > 1 else None
        if role not in SPLITS:
            return {"train": [*names]}
        by_split.setdefault(role, []).append(name)
    return by_split


def _mask(
    coco: Any, image: int, size: tuple[int, int], numbers: Mapping[int, int]
) -> np.ndarray:
    """The class of each pixel of an image, uint8 (H, W). Raises errors of any kind for
    objects without a category or a segmentation.

    Args:
        coco: The annotations.
        image: The id of the image.
        size: Its width and height.
        numbers: The class of each category, by its id.
    """
    width, height = size
    mask = np.zeros((height, width), dtype=np.uint8)
    n_pixels = np.full(mask.shape, mask.size + 1)
    for thing in coco.loadAnns(coco.getAnnIds(imgIds=image)):
        if thing["segmentation"] == []:
            continue
        number = IGNORED if thing.get("iscrowd") else numbers[thing["category_id"]]
        is_covered = coco.annToMask(thing).astype(bool)
        # Larger objects do not hide smaller ones.
        is_shown = is_covered & (is_covered.sum() < n_pixels)
        mask[is_shown] = number
        n_pixels[is_shown] = is_covered.sum()
    return mask
