"""Masks in a file of COCO annotations: polygons or run lengths of the objects in each
image, by category.

Category k of the file, in the order of their ids, is the class k + 1; pixels of no
object have the class 0, `background`. Where objects overlap, the smaller one counts.
Crowds are ignored.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hba.data.labels import SPLITS, composed, split_called
from hba.data.masks import MaskedFiles, fitted_masks
from hba.data.pool import Pool, Source
from hba.data.reading import resized_mask, upright_size
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
    api = import_extra("pycocotools.coco", "coco", f"the annotations {file}")
    try:
        # It prints its progress.
        with contextlib.redirect_stdout(io.StringIO()):
            coco = api.COCO(str(file))
        categories = coco.loadCats(sorted(coco.getCatIds()))
        numbers = {entry["id"]: place for place, entry in enumerate(categories, 1)}
        names = tuple(composed(str(entry["name"])) for entry in categories)
        entries = {
            composed(entry["file_name"]): entry
            for entry in coco.loadImgs(coco.getImgIds())
        }
    except Exception as error:
        # Any program may have written the file.
        raise DataError(
            f"cannot read the annotations {file} ({reason_of(error)}); give a JSON"
            " file of COCO's format"
        ) from None
    if not 0 < len(names) <= MOST_CATEGORIES or not entries:
        raise DataError(
            f"{file} must have images and 1 to {MOST_CATEGORIES} categories, got"
            f" {len(entries)} and {len(names)}"
        )
    if missing := [name for name in sorted(entries) if not (folder / name).is_file()]:
        raise DataError(
            f"{folder} lacks {len(missing)} of the {len(entries)} images of {file}:"
            f" {first_of(missing)}; give the folder to which their file_name is"
            " relative"
        )

    def pool(names_of_split: Sequence[str]) -> Pool:
        masks = [
            _mask(coco, entries[name], numbers, folder / name)
            for name in names_of_split
        ]
        return Pool(
            MaskedFiles.of(folder, [folder / name for name in names_of_split]),
            fitted_masks(
                [resized_mask(mask, image_size) for mask in masks],
                image_size,
                is_binary=False,
            ),
            np.arange(len(masks)),
        )

    by_split = _by_split(sorted(entries))
    if not by_split.get("train"):
        raise DataError(f"{file} must have images of a split train")
    return Source(
        str(folder),
        (BACKGROUND, *names),
        pool(by_split["train"]),
        pool(by_split["val"]) if "val" in by_split else None,
        partial(pool, by_split["test"]) if "test" in by_split else None,
        facts=(f"masks from {file.name}",),
    )


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
    coco: Any, entry: Mapping[str, Any], numbers: Mapping[int, int], path: Path
) -> np.ndarray:
    """The class of each pixel of an image, uint8 (H, W).

    Args:
        coco: The annotations.
        entry: That of the image.
        numbers: The class of each category, by its id.
        path: The image file.
    """
    size = upright_size(path)
    if size != (entry["width"], entry["height"]):
        raise DataError(
            f"{path} has {size[0]} x {size[1]} pixels, but its annotations are for"
            f" {entry['width']} x {entry['height']}; correct them, or remove it"
        )
    mask = np.zeros((entry["height"], entry["width"]), dtype=np.uint8)
    objects = coco.loadAnns(coco.getAnnIds(imgIds=entry["id"]))
    try:
        covered = [(coco.annToMask(thing).astype(bool), thing) for thing in objects]
    except Exception as error:
        raise DataError(
            f"cannot use the annotations of {path} ({reason_of(error)}); each needs a"
            " segmentation"
        ) from None
    # The smaller objects come later, so that larger ones do not hide them.
    for is_covered, thing in sorted(covered, key=lambda pair: -int(pair[0].sum())):
        number = IGNORED if thing.get("iscrowd") else numbers[thing["category_id"]]
        mask[is_covered] = number
    return mask
