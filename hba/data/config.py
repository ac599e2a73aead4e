"""Settings that select images and split them, and the formats of data."""

import contextlib
import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from hba.data.arrays import DATASET_NAMES, NATIVE_IMAGE_SIZES
from hba.data.labels import split_called
from hba.data.masks import has_masks
from hba.data.reading import Levels
from hba.data.saved import SPLITS_FILE
from hba.data.splits import shipped_class_lists
from hba.data.table import PARQUET_ENDINGS
from hba.errors import SettingsError
from hba.utils.files import read_text
from hba.utils.settings import DefaultText, Settings, words

COLUMN_SETTINGS = (
    "path_column",
    "label_column",
    "split_column",
    "label_separator",
    "target",
    "image_folder",
    "image_ending",
)
"""Those of tables."""
Size = Annotated[int, Field(ge=1)]
ImageSize = Annotated[int, Field(ge=8, le=1024)]
Workers = Annotated[int, Field(ge=0, le=128)]
FOLDER_IMAGE_SIZE = 32
"""Default side in pixels for a folder, whose images may have any size."""
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _check_levels(levels: Levels) -> Levels:
    if not (
        math.isfinite(levels[0]) and math.isfinite(levels[1]) and levels[0] < levels[1]
    ):
        raise SettingsError(
            "must be two numbers, the level that becomes black and a higher one that"
            " becomes white"
        )
    return levels


def _check_pattern(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error as error:
        raise SettingsError(f"must be a regular expression ({error})") from None
    return pattern


TwoLevels = Annotated[
    tuple[float, float], BeforeValidator(words), AfterValidator(_check_levels)
]
Separator = Annotated[str, Field(min_length=1, max_length=1)]


class DataConfig(Settings):
    """Which images are used, and how they are split."""

    data: str = "digits"
    """A dataset's name, a folder of images, a table of them (.csv, .parquet), arrays
    (.npz), a saved dataset, or a folder written by hba prepare. NAME is the dataset,
    ./NAME a folder of that name.
    """
    image_size: Annotated[
        ImageSize | None, DefaultText("the dataset's own, else 32")
    ] = None
    """Side of the images in pixels. Their shorter side is resized to it, and the center
    is cropped.
    """
    path_column: Annotated[
        str | None, DefaultText("the one called path, file, filename, image, ...")
    ] = None
    """Column of image paths in a table, or of images in a saved dataset."""
    masks: Annotated[str | None, DefaultText("DIR/masks, if there are DIR/images")] = (
        None
    )
    """Folder of masks with the names of the images, whose pixels are numbers of
    classes, or a JSON file of COCO annotations.
    """
    mask_colors: Annotated[str | None, DefaultText("none: masks of numbers")] = None
    """Text file of the colors in masks: lines with red, green, blue and the name of a
    class, or ignored.
    """
    label_column: Annotated[
        str | None, DefaultText("the one called label, class or target")
    ] = None
    """Column of classes in a table or a saved dataset: names or whole numbers."""
    label_separator: Annotated[
        Separator | None, DefaultText("none: an image has one label")
    ] = None
    """Character between the labels in a cell of a table or a saved dataset, such as
    ";", if images have several. An empty cell is an image without a label.
    """
    target: Annotated[str | None, DefaultText("none: images have classes")] = None
    """Column of numbers in a table or a saved dataset, which a network learns to
    predict instead of classes.
    """
    split_column: Annotated[str | None, DefaultText("the one called split, if any")] = (
        None
    )
    """Column of a table that says train, val or test; with none, the splits are drawn.
    """
    image_folder: Annotated[str | None, DefaultText("the folder of the table")] = None
    """Folder that the paths in a table are relative to, itself relative to the folder
    of the table.
    """
    image_ending: Annotated[str | None, DefaultText("none")] = None
    """File ending, such as .jpg, that the paths in a table lack."""
    classes: Annotated[str | None, DefaultText("all")] = None
    """Text file of the classes to keep, one name or number per line, or imagenet-120.
    """
    train_size: Annotated[Size | None, DefaultText("all")] = None
    """Number of training images."""
    val_size: Annotated[
        Size | None, DefaultText("a fifth, or all of DIR/val if it exists")
    ] = None
    """Number of validation images. For searches only."""
    split_seed: Seed = 0
    """Seed that decides which images go into which split."""
    group: Annotated[
        Annotated[str, AfterValidator(_check_pattern)] | None,
        DefaultText("none, every image alone"),
    ] = None
    """Regular expression of the part of a path that images of one patient, video or
    scene share, such as "patient_[0-9]+", or a column of a table that names them.
    Splits keep them together.
    """
    data_root: str = "data"
    """Folder of torchvision's dataset files."""
    download: bool = False
    """Download a dataset that is not in the data root."""
    stream: Annotated[
        bool | None, DefaultText("if those of a split would take more than 8 GB")
    ] = None
    """Read images from their files in every epoch instead of keeping them in memory."""
    workers: Annotated[Workers | None, DefaultText("one per core, at most 8")] = None
    """Processes that read images while streaming."""
    skip_broken: Annotated[bool | None, DefaultText("at most 5, or 1 %")] = None
    """Leave out any number of images that cannot be read, instead of stopping; off
    stops at the first one.
    """
    levels: Annotated[
        TwoLevels | None, DefaultText("0,65535, or 0,1 for floating point")
    ] = None
    """For images of more than 8 bits: the levels that become black and white, such as
    0,4095.
    """

    @property
    def side(self) -> int:
        """The size in pixels of a network's input."""
        return self.image_size or NATIVE_IMAGE_SIZES.get(self.data, FOLDER_IMAGE_SIZE)

    @property
    def stored_size(self) -> int:
        """The size in pixels at which images are read and a policy is applied."""
        return self.side


Format = Literal["folder", "table", "npz", "saved", "prepared", "masks"]
"""Class folders, a table of paths and labels, NumPy arrays, a dataset saved by
`datasets`, prepared images, or images with masks.
"""
CSV_ENDINGS = (".csv", ".tsv")
SAVED_FILES = ("dataset_info.json", "state.json")
"""Files in each split that `datasets` has saved."""
PREPARED_NAME = "prepared_images.json"


def format_of(data: str | Path) -> Format:
    """The format of the data, by its name and the names of its files.

    None of the files is read. A folder for anything else.
    """
    path = Path(data)
    if path.is_dir():
        names = {
            name
            for name in (PREPARED_NAME, SPLITS_FILE, *SAVED_FILES)
            if os.path.isfile(path / name)  # noqa: PTH113
        }
        if PREPARED_NAME in names:
            return "prepared"
        if SPLITS_FILE in names or names.issuperset(SAVED_FILES):
            return "saved"
        return "masks" if has_masks(path) else "folder"
    if path.suffix.lower() in (*CSV_ENDINGS, *PARQUET_ENDINGS):
        return "table"
    return "npz" if path.suffix.lower() == ".npz" else "folder"


def display_name(data: str) -> str:
    """The last part of a path: `animals`, `animals/train`.

    The part before it is added if the last is only a split.
    """
    path = Path(data) if Path(data).name not in ("", "..") else Path(data).resolve()
    return (
        f"{path.parent.name}/{path.name}".lstrip("/")
        if split_called(path.stem)
        else path.name
    )


def run_name(data: str) -> str:
    """The same as a name for a folder: `animals`, `animals-train`.

    It lacks the ending of files or prepared images.
    """
    path = Path(data)
    has_ending = path.suffix.lower() in (*CSV_ENDINGS, *PARQUET_ENDINGS, ".npz", ".hba")
    return (
        display_name(str(path.with_suffix("") if has_ending else path)).replace(
            "/", "-"
        )
        or "data"
    )


def resolved_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with absolute paths of data and classes that are files.

    Prepared images set image_size to theirs.
    """
    resolved = dict(settings)
    data = settings.get("data")
    classes = settings.get("classes")
    for name in ("masks", "mask_colors"):
        if isinstance(place := settings.get(name), str | Path):
            resolved[name] = str(Path(place).resolve())
    if isinstance(data, Path) or (
        isinstance(data, str) and data not in DATASET_NAMES and Path(data).exists()
    ):
        place = Path(data)
        # The paths in a table are relative to its own folder, not to the one that a
        # link points to.
        resolved["data"] = str(
            place.parent.resolve() / place.name if place.is_file() else place.resolve()
        )
        if settings.get("image_size") is None and (place / PREPARED_NAME).is_file():
            # If the file is broken, its reader reports it.
            with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
                resolved["image_size"] = json.loads(read_text(place / PREPARED_NAME))[
                    "image_size"
                ]
    if isinstance(classes, Path) or (
        isinstance(classes, str) and classes not in shipped_class_lists()
    ):
        resolved["classes"] = str(Path(classes).resolve())
    return resolved
