"""Datasets that the library `datasets` has saved."""

import contextlib
import json
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from hba.data.columns import Columns, LabelForm, Role, find_column
from hba.data.labels import composed, split_called, split_role
from hba.data.masks import (
    MaskedFiles,
    MaskPart,
    mask_of,
    numbers_of,
    source_of_masks,
)
from hba.data.pool import FileItems, Part, Source, source_of
from hba.data.reading import opened, upright_size
from hba.errors import DataError
from hba.utils.files import read_text, reason_of
from hba.utils.imports import import_extra

SPLITS_FILE = "dataset_dict.json"
"""File that `datasets` saves beside several splits."""


def saved_source(
    folder: Path, columns: Columns, label_form: LabelForm, image_size: int
) -> Source:
    """A dataset that `datasets.Dataset.save_to_disk` has saved.

    It has its splits where it has some. Images are ordered as in source_of. The classes
    of a ClassLabel keep their order; others are sorted as text. Other splits than
    train, val and test, and a test split without labels, are left out; a fact of the
    source says so. If the labels are images, they are masks.

    Args:
        folder: Where it was saved.
        columns: Names that were given.
        label_form: How labels are read; several ones may also be a list.
        image_size: Side in pixels to which masks are fitted.

    Raises:
        DataError: For an unusable dataset.
    """
    places = {"train": folder}
    splits_file = folder / SPLITS_FILE
    facts = list[str]()
    if splits_file.is_file():
        try:
            names = json.loads(read_text(splits_file))["splits"]
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(
                f"cannot read {splits_file} ({reason_of(error)}); save it anew"
            ) from None
        unused_names = [name for name in names if split_called(name) is None]
        if unused_names:
            facts.append(f"splits that are not used: {', '.join(unused_names)}")
        places = {
            split_role(name, folder): folder / name
            for name in names
            if name not in unused_names
        }
    if "train" in places and not label_form.are_numbers:
        masked = _mask_columns(places["train"], columns)
        if masked is not None:
            parts = {
                role: partial(_saved_masks, place, *masked, image_size)
                for role, place in places.items()
            }
            return source_of_masks(folder, parts, image_size, facts=tuple(facts))
    # What cannot be read of a test split is said when it is used.
    with contextlib.suppress(DataError):
        if "test" in places and all(
            label in (None, -1)
            for label in _read_saved(places["test"], columns, label_form).labels
        ):
            facts.append("the test split has no labels, so it is not used")
            del places["test"]
    read = {
        role: partial(_read_saved_part, place, columns, label_form, tuple(facts))
        for role, place in places.items()
    }
    return source_of(folder, read)


class _Saved(NamedTuple):
    """A dataset that `datasets` has saved, with the labels of its images."""

    dataset: Any
    image: str
    """Name of the column of images."""
    label: str
    """Name of the column of labels."""
    labels: Sequence[Any]
    """Texts, numbers or lists of them; of a ClassLabel, its names, None for a missing
    one.
    """
    class_names: tuple[str, ...]
    """All names of a ClassLabel; () for other labels."""
    is_multi: bool
    """Whether an image may have several labels."""


def _load_saved(folder: Path) -> Any:
    """The dataset in a folder. DataError for a damaged one."""
    datasets = import_extra("datasets", "datasets", f"the saved dataset {folder}")
    try:
        return datasets.load_from_disk(str(folder)).with_format(None)
    except Exception as error:
        # Damaged files make it raise exceptions of any kind.
        raise DataError(
            f"cannot read the saved dataset {folder} ({reason_of(error)}); save it"
            " again"
        ) from None


def _mask_columns(folder: Path, columns: Columns) -> tuple[str, str] | None:
    """The columns of images and of masks; None if the labels are no images."""
    dataset = _load_saved(folder)
    from datasets import ClassLabel, Image

    features = dict(dataset.features)
    images = [name for name, kind in features.items() if isinstance(kind, Image)]
    label = columns["label"]
    has_classes = any(isinstance(kind, ClassLabel) for kind in features.values())
    if len(images) < 2 or (has_classes if label is None else label not in images):
        return None
    others = [name for name in images if name != label]
    image = others[0]
    if len(others) > 1:
        image = find_column("path", columns, others, folder)
    rest = [name for name in images if name != image]
    mask = label or (rest[0] if len(rest) == 1 else "")
    return image, mask or find_column("label", columns, rest, folder)


def _encoded(dataset: Any, column: str) -> Any:
    """The images of a column as rows with `bytes` and `path`."""
    from datasets import Image

    rows = dataset.select_columns([column]).cast_column(column, Image(decode=False))
    names = {f"{column}.bytes": "bytes", f"{column}.path": "path"}
    return rows.flatten().rename_columns(names)


def _saved_masks(folder: Path, image: str, mask: str, image_size: int) -> MaskPart:
    """Images with masks of a saved dataset. DataError for a mask that does not fit, and
    for a split without these columns.
    """
    dataset = _load_saved(folder)
    for name in (image, mask):
        if name not in dataset.column_names:
            raise DataError(
                f"{folder} has no column {name!r}, which the training images have; save"
                " all splits with the same columns"
            )
    images, encoded_masks = _encoded(dataset, image), _encoded(dataset, mask)
    paths = np.array([os.fsencode(path or "") for path in images["path"]])
    items = MaskedFiles(folder, paths, encoded=images, can_stream=False)
    files = FileItems(
        folder,
        np.array([os.fsencode(path or "") for path in encoded_masks["path"]]),
        encoded=encoded_masks,
        can_stream=False,
    )
    masks = []
    for number in range(len(dataset)):
        name = f"number {number} of {folder}"
        try:
            size = upright_size(items.file(number))
            with opened(files.file(number)) as picture:
                numbers = numbers_of(picture, size)
        except DataError as error:
            raise DataError(
                f"cannot use the mask {name} ({error}); leave it out with its image"
            ) from None
        masks.append(mask_of(name, numbers, image_size))
    return MaskPart(items, masks)


def _read_saved(folder: Path, columns: Columns, label_form: LabelForm) -> _Saved:
    """Reads no image."""
    separator = label_form.separator
    dataset = _load_saved(folder)
    import datasets

    # A list of labels is one of several; a list of images is no image.
    features = dict(dataset.features)
    inner = {name: _inner(feature) for name, feature in features.items()}
    inner |= {
        name: feature
        for name, feature in features.items()
        if isinstance(inner[name], datasets.Image)
    }

    def find(
        role: Role,
        feature_type: type,
        candidates: Sequence[str],
        option: str | None = None,
    ) -> str:
        matches = [
            name for name, feature in inner.items() if isinstance(feature, feature_type)
        ]
        is_clear = len(matches) == 1 and columns[role] is None
        return (
            matches[0]
            if is_clear
            else find_column(role, columns, candidates or matches, folder, option)
        )

    image = find("path", datasets.Image, ())
    label = find(
        "label",
        datasets.ClassLabel,
        [name for name in features if name != image],
        label_form.option,
    )
    values = dataset.select_columns([label])[:][label]
    class_names = tuple(map(composed, getattr(inner[label], "names", ())))
    is_list = inner[label] is not features[label]
    if is_list and separator is not None:
        raise DataError(
            f"column {label!r} of {folder} has lists of labels; omit --label-separator"
        )

    def name_of(value: Any) -> Any:
        if isinstance(value, list):
            return [name_of(item) for item in value]
        # A ClassLabel marks a missing class as -1.
        if not class_names:
            return value
        return None if value in (None, -1) else class_names[value]

    return _Saved(
        dataset,
        image,
        label,
        [*map(name_of, values)],
        class_names,
        is_list or separator is not None,
    )


def _inner(feature: Any) -> Any:
    """Of a list of labels, which datasets calls Sequence, List or [feature], that of
    one label.
    """
    if isinstance(feature, list):
        return feature[0]
    inner = getattr(feature, "feature", feature)
    return feature if isinstance(inner, dict) else inner


def _read_saved_part(
    folder: Path, columns: Columns, label_form: LabelForm, facts: tuple[str, ...]
) -> Part:
    saved = _read_saved(folder, columns, label_form)
    names = [
        label_form.names(value, f"number {number} of {folder}")
        for number, value in enumerate(saved.labels)
    ]
    encoded = _encoded(saved.dataset, saved.image)
    paths = np.array([os.fsencode(path or "") for path in encoded["path"]])
    items = FileItems(
        folder, paths, tuple(map(", ".join, names)), encoded, can_stream=False
    )
    noun = "numbers" if label_form.are_numbers else "classes"
    fact = f"columns: images from {saved.image!r}, {noun} from {saved.label!r}"
    return Part(
        items,
        names,
        class_names=saved.class_names,
        facts=(fact, *facts),
        is_multi=saved.is_multi,
        target=saved.label if label_form.are_numbers else None,
    )
