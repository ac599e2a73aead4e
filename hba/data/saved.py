"""A folder that the library `datasets` has saved, by `save_to_disk`."""

import json
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from hba.data.columns import BY_NAME, Columns, check_two_classes, class_name, listed_columns, numbered, split_role
from hba.data.encoded import Encoded, ImageFile
from hba.data.folder import try_to_read
from hba.data.formats import SPLITS_FILE
from hba.data.images import Source, of_classes
from hba.data.levels import Deep, Levels, deep_among, deep_or_none
from hba.data.pictures import PicturePool, restricted_unused
from hba.data.skipped import SkippedFile
from hba.errors import DataError
from hba.utils.imports import import_extra

LIBRARY = "datasets"


@dataclass(frozen=True)
class SavedPool(PicturePool):
    """Images in rows of a dataset. dataset: of one column, of encoded images. place: what a person calls it. numbers:
    of the rows. class_names: by label.
    """

    dataset: Any
    column: str
    place: str
    numbers: np.ndarray
    labels: np.ndarray
    skip_broken: bool
    class_names: tuple[str, ...]
    unused: tuple[tuple[int, SkippedFile], ...] = ()
    levels: Levels | None = None

    def restricted(self, keep: Sequence[int]) -> "SavedPool":
        chosen, labels = of_classes(self.labels, keep)
        return replace(
            self,
            numbers=self.numbers[chosen],
            labels=labels,
            class_names=tuple(self.class_names[label] for label in keep),
            unused=restricted_unused(self.unused, keep),
        )

    def file_of(self, index: int) -> ImageFile:
        """The image's own bytes, or the file that the row names in their place. ValueError for an empty row."""
        image = self.dataset[int(self.numbers[index])][self.column]
        if image is None or (image["bytes"] is None and image["path"] is None):
            raise ValueError("the row holds no image")
        return Path(image["path"]) if image["bytes"] is None else Encoded(self.name_of(index), image["bytes"])

    def known_as(self, index: int) -> str:
        """Class and name of the file that the image was, as far as the row tells; as of an image in a folder."""
        image = self.dataset[int(self.numbers[index])][self.column]
        name = Path((image or {}).get("path") or "").name
        return f"{self.class_names[self.labels[index]]}/{name}"

    def picture(self, index: int, image_size: int) -> Tensor | str:
        try:
            file = self.file_of(index)
        except ValueError as error:
            return str(error)
        return try_to_read(file, image_size, self.levels)

    def name_of(self, index: int) -> str:
        return f"number {self.numbers[index]} of {self.place}"

    def deep(self, indices: np.ndarray) -> Generator[Deep]:
        return deep_among(indices.tolist(), self._deep_or_none)

    def _deep_or_none(self, index: int) -> Deep | None:
        try:
            return deep_or_none(self.file_of(index))
        except ValueError:
            return None

    def scaled(self, levels: Levels | None) -> "SavedPool":
        return replace(self, levels=levels)


def saved_source(folder: Path, columns: Columns = BY_NAME, skip_broken: bool = False) -> Source:
    """The dataset, with its splits where it has some.

    Images come class by class, each class in the order of its rows. The classes of a ClassLabel keep their order; other
    labels are sorted as text, as a folder's classes are. The files of a test split are not opened before that is asked
    for. Raises DataError for what cannot be used.
    """
    columns.check_idle(str(folder), ("split",), "has splits where they were saved")
    parts = _parts(folder)
    train = _Part.opened(parts["train"], columns)
    names = train.class_labels()
    class_names = train.own_class_names or tuple(sorted(set(names)))
    check_two_classes(class_names, folder)

    def pool(part: str) -> SavedPool:
        opened = train if part == "train" else _Part.opened(parts[part], columns)
        labels = numbered(opened.class_labels(), class_names, f"the split {part} of {folder}")
        order = labels.argsort(stable=True)
        place = str(opened.folder)
        return SavedPool(opened.images(), opened.image, place, order, labels[order], skip_broken, class_names)

    return Source(
        name=str(folder),
        class_names=class_names,
        train=pool("train"),
        val=pool("val") if "val" in parts else None,
        test=partial(pool, "test") if "test" in parts else None,
        facts=(f"columns of {folder.name}: images from {train.image!r}, classes from {train.label!r}",),
    )


@dataclass(frozen=True)
class _Part:
    """One split as it was opened: its dataset, and the columns of its images and labels."""

    folder: Path
    dataset: Any
    image: str
    label: str

    @staticmethod
    def opened(folder: Path, columns: Columns) -> "_Part":
        datasets = import_extra(LIBRARY, LIBRARY, f"the saved dataset {folder}")
        try:
            dataset = datasets.load_from_disk(str(folder)).with_format(None)
        except MemoryError:
            raise
        except Exception as error:
            # Files that are not what they should be make it fail in any way.
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise DataError(f"cannot read the saved dataset {folder} ({reason}); save it anew") from None
        if not len(dataset):
            raise DataError(f"the saved dataset {folder} has no rows")
        features = dataset.features
        images = [name for name, kind in features.items() if isinstance(kind, datasets.Image)]
        if not images:
            raise DataError(f"{folder} has no column of images, of the feature Image{listed_columns(list(features))}")
        image = images[0] if len(images) == 1 and columns.path is None else columns.needed("path", images, folder)
        labels = [name for name, kind in features.items() if isinstance(kind, datasets.ClassLabel)]
        if len(labels) == 1 and columns.label is None:
            return _Part(folder, dataset, image, labels[0])
        return _Part(folder, dataset, image, columns.needed("label", [one for one in features if one != image], folder))

    @property
    def own_class_names(self) -> tuple[str, ...]:
        """Of a ClassLabel; empty for others."""
        return tuple(getattr(self.dataset.features[self.label], "names", ()))

    def class_labels(self) -> list[str]:
        """What each row calls its class. DataError for a row without."""
        own = self.own_class_names
        found = []
        for number, label in enumerate(self.dataset.select_columns([self.label])[:][self.label]):
            try:
                name = None if label is None or (own and label < 0) else own[label] if own else class_name(label)
            except ValueError as error:
                raise DataError(f"number {number} of {self.folder} has as {self.label} {error}") from None
            if name is None:
                raise DataError(f"number {number} of {self.folder} has no {self.label}: fill it, or remove the row")
            found.append(name)
        return found

    def images(self) -> Any:
        """The column of images, undecoded."""
        datasets = import_extra(LIBRARY, LIBRARY, f"the saved dataset {self.folder}")
        return self.dataset.select_columns([self.image]).cast_column(self.image, datasets.Image(decode=False))


def _parts(folder: Path) -> Mapping[str, Path]:
    """By split, the folder of its files. What is not split is all for training, from which splits are drawn."""
    splits = folder / SPLITS_FILE
    if not splits.is_file():
        return {"train": folder}
    try:
        names = json.loads(splits.read_text(encoding="utf-8"))["splits"]
        roles = [(split_role(str(name), str(folder)), folder / str(name)) for name in names]
    except (OSError, ValueError, KeyError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"cannot read {splits}, which must name the splits; save the dataset anew") from None
    parts = dict(roles)
    if len(parts) < len(roles) or "train" not in parts:
        raise DataError(f"{folder} must have one split for training and at most one each of val and test, got {names}")
    return parts
