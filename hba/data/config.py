"""Settings that say which images are used and how they are split."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from hba.data.classes import shipped_class_lists
from hba.data.levels import Levels
from hba.data.listing import holds_images
from hba.data.named import DATASET_NAMES, NATIVE_IMAGE_SIZES
from hba.data.prepared import own_image_size
from hba.errors import SettingsError
from hba.utils.settings import TEXT_RULE, DefaultText, Settings, is_text, words

Size = Annotated[int, Field(ge=1)]
ImageSize = Annotated[int, Field(ge=8, le=1024)]
Workers = Annotated[int, Field(ge=0, le=128)]
FOLDER_IMAGE_SIZE = 32
"""The images of a folder may have any size."""
DATASET = "dataset:"
"""Written before the name of a dataset where a folder has that name too."""
LAST_SEED = 2**32 - 1
Seed = Annotated[int, Field(ge=0, lt=2**32)]


def _checked_levels(levels: Levels) -> Levels:
    if not (math.isfinite(levels[0]) and math.isfinite(levels[1]) and levels[0] < levels[1]):
        raise SettingsError("must be two numbers, the level that becomes black and a higher one that becomes white")
    return levels


TwoLevels = Annotated[tuple[float, float], BeforeValidator(words), AfterValidator(_checked_levels)]


def _checked_separator(separator: str) -> str:
    if len(separator) != 1 or separator.isalnum():
        raise SettingsError(f"must be one character that is no letter or digit, such as ;, got {separator!r}")
    return separator


Separator = Annotated[str, AfterValidator(_checked_separator)]


class DataConfig(Settings):
    """Which images, and how they are split."""

    data: str = "digits"
    """A dataset's name, a folder of images, a table of them (.csv, .parquet), arrays (.npz), a saved dataset, or what
    hba prepare has written. NAME is the dataset, ./NAME a folder of that name."""
    image_size: Annotated[ImageSize | None, DefaultText("that of the dataset or prepared images, else 32")] = None
    """Side in pixels of the images that are used. Their shorter side is resized to it, and the centre cut out."""
    path_column: Annotated[str | None, DefaultText("the one called path, file, filename, image, ...")] = None
    """Of a table, the column of image paths; of a saved dataset, the column of images."""
    label_column: Annotated[str | None, DefaultText("the one called label, class or target")] = None
    """Of a table or a saved dataset, the column of classes: names or whole numbers."""
    label_separator: Annotated[Separator | None, DefaultText("none: an image has one label")] = None
    """Of a table whose images have several labels: the character between them, such as ";". An empty cell is an image
    without a label."""
    split_column: Annotated[str | None, DefaultText("the one called split, where there is one")] = None
    """Of a table, the column that says train, val or test; none for splits that are drawn."""
    classes: Annotated[str | None, DefaultText("all")] = None
    """Text file of the classes to keep, a name or number in each line, or imagenet-120."""
    train_size: Annotated[Size | None, DefaultText("all that there are")] = None
    """Number of training images."""
    val_size: Annotated[Size | None, DefaultText("a fifth, or all of DIR/val where it exists")] = None
    """Number of validation images. For searches only."""
    split_seed: Seed = 0
    """Decides which images go into which split."""
    data_root: str = "data"
    """Folder of torchvision's dataset files."""
    download: bool = False
    """Download a dataset that is not in the data root."""
    stream: Annotated[
        bool | None, DefaultText("when those of training, validation or test would take more than 8 GB")
    ] = None
    """Leave images in their files instead of memory: decode them in every epoch, or copy prepared ones."""
    workers: Annotated[Workers | None, DefaultText("one per core but at most 8")] = None
    """Processes that read images while streaming, of prepared images threads."""
    skip_broken: bool = False
    """Omit images that cannot be read, and count them, instead of stopping."""
    levels: Annotated[
        TwoLevels | None, DefaultText("one pair for all images, found from those for training and validation")
    ] = None
    """Of images of more than 8 bits: the level that becomes black and the one that becomes white, such as 0,4095."""

    @property
    def side(self) -> int:
        """The size in pixels of a network's input."""
        return self.image_size or NATIVE_IMAGE_SIZES.get(self.data, FOLDER_IMAGE_SIZE)

    @property
    def stored_size(self) -> int:
        """The size in pixels that images are read with, and that a policy is applied at."""
        return self.side


def check_clash(data: object, data_root: object = None) -> None:
    """SettingsError for a dataset's name that a folder of images here has too: it could mean either."""
    if not isinstance(data, str) or data not in DATASET_NAMES:
        return
    folder = Path(data)
    if folder.resolve() == Path(str(data_root or "data"), data).resolve():
        # Where ImageNet itself lies.
        return
    if holds_images(folder):
        raise SettingsError(
            f"{data} is the name of a dataset, and of a folder of images here: write ./{data} for the folder, "
            f"{DATASET}{data} for the dataset"
        )


def resolved_data(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with a folder or file of data and a file of classes by absolute path, which are found from anywhere.

    A name stays, without `dataset:` before it. Prepared images bring their size. SettingsError for text that no path
    can be.
    """
    resolved = dict(settings)
    for name in ("data", "classes"):
        if isinstance(given := settings.get(name), str | Path) and not is_text(str(given)):
            raise SettingsError(f"{name} {TEXT_RULE}, got {str(given)!r}")
    data, classes = settings.get("data"), settings.get("classes")
    if isinstance(data, str) and data.startswith(DATASET):
        data = resolved["data"] = data.removeprefix(DATASET)
        if data not in DATASET_NAMES:
            raise SettingsError(f"unknown dataset {data!r}; known: {', '.join(DATASET_NAMES)}")
    if isinstance(data, Path) or (isinstance(data, str) and data not in DATASET_NAMES and Path(data).exists()):
        place = Path(data)
        # What a table's paths are relative to is where it lies, not where a link to it leads.
        resolved["data"] = str(place.parent.resolve() / place.name if place.is_file() else place.resolve())
        if settings.get("image_size") is None and (size := own_image_size(place)) is not None:
            resolved["image_size"] = size
    if isinstance(classes, Path) or (isinstance(classes, str) and classes not in shipped_class_lists()):
        resolved["classes"] = str(Path(classes).resolve())
    return resolved
