"""Images in rows: a CSV or Parquet table of image files, or a folder that the library
`datasets` has saved.
"""

import contextlib
import itertools
import json
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from hba.data.labels import (
    classes_of,
    composed,
    number_text,
    split_called,
    split_role,
)
from hba.data.masks import (
    MaskedFiles,
    MaskPart,
    mask_of,
    numbers_of,
    source_of_masks,
)
from hba.data.pool import FileItems, Part, Source, most_left_out, source_of
from hba.data.reading import SkippedFile, opened, upright_size
from hba.errors import DataError
from hba.utils.files import read_text, reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted, did_you_mean, first_of

Role = Literal["path", "label", "split"]
Columns = Mapping[Role, str | None]
"""Names of columns that were given; None for the others."""


class LabelForm(NamedTuple):
    """How labels are read from cells."""

    separator: str | None = None
    """Between the labels in a cell, if images have several."""
    are_numbers: bool = False
    """Whether they are numbers to predict, instead of classes."""

    @property
    def option(self) -> str:
        """The option that chooses the column of labels."""
        return "--target" if self.are_numbers else "--label-column"

    def names(self, cell: Any, where: str) -> tuple[str, ...]:
        """The classes of a cell, or its number as text. DataError for a cell that has
        none.
        """
        if self.are_numbers:
            return (number_text(cell, where),)
        return classes_of(cell, self.separator, where)


NAMES: Mapping[Role, tuple[str, ...]] = {
    "path": ("path", "file", "filename", "file_name", "image", "image_path"),
    "label": ("label", "class", "target"),
    "split": ("split",),
}
"""Usual names of columns, for those that no setting names; case is ignored."""
NO_SPLITS = "none"
"""As the name of the column of splits, it means that there is none, whatever columns
the table has.
"""
PARQUET_ENDINGS = (".parquet", ".pq")
SEPARATORS = (",", ";", "\t")
"""Of a CSV file, the separator is the first of these that occurs in its first line."""
SPLITS_FILE = "dataset_dict.json"
"""File that `datasets` saves beside several splits."""


def find_column(
    role: Role,
    columns: Columns,
    names: Sequence[str],
    data: object,
    option: str | None = None,
) -> str:
    """The column that was given, or the one with a usual name.

    Args:
        role: What the column holds.
        columns: Names that were given.
        names: Of all columns.
        data: The table, for messages.
        option: The option that chooses the column; None for that of the role.

    Raises:
        DataError: If there is none, or several.
    """
    chosen = columns[role]
    usual = NAMES[role]
    chosen_name = composed(chosen or "")
    matches = [
        name
        for name in names
        if (
            composed(name) == chosen_name
            if chosen
            else name.strip().casefold() in usual
        )
    ]
    if len(matches) == 1:
        return matches[0]
    meant = (
        f"column {chosen!r}{did_you_mean(chosen, names)}"
        if chosen
        else f"single column called {NAMES[role][0]}"
    )
    shown = first_of([repr(name) for name in names], 8)
    option = option or f"--{role}-column"
    raise DataError(f"{data} has no {meant}; choose one by {option}; columns: {shown}")


def table_source(
    file: Path,
    columns: Columns,
    label_form: LabelForm,
    image_folder: str | None,
    image_ending: str | None,
    skip_broken: bool | None,
    group: str | None = None,
) -> Source:
    """The images of a CSV or Parquet file.

    Classes are sorted by name and images by class and path, with numbers by path only,
    so the order of rows does not matter. Training and validation images must exist, but
    none is opened.

    Args:
        file: The table.
        columns: Names that were given.
        label_form: How labels are read.
        image_folder: Folder that relative paths are relative to, itself relative to the
            folder of the file; None for the latter.
        image_ending: Of files, which the paths lack.
        skip_broken: As in DataConfig, for files that are missing.
        group: The column of groups, if the table has one of this name.

    Raises:
        DataError: For an unusable table.
    """
    table = _read(file)
    column_names = list(map(str, table.columns))
    path = find_column("path", columns, column_names, file)
    label = find_column("label", columns, column_names, file, label_form.option)
    split = _split_column(columns, column_names, file)
    has_groups = group in column_names
    groups: list[str | None] = [""] * len(table)
    if has_groups:
        # Parquet files may have numbers.
        groups = [None if cell is None else str(cell) for cell in table[group]]
    group_of: dict[Path, str] = {}
    parts: dict[str, dict[Path, tuple[str, ...]]] = {}
    roles = ["train"] * len(table) if split is None else table[split]
    folder = file.parent.absolute() / (image_folder or "")
    ending = image_ending or ""
    if ending and not ending.startswith("."):
        ending = f".{ending}"
    for number, named, cell, role, group_cell in zip(
        table.index, table[path], table[label], roles, groups, strict=True
    ):
        where = f"row {number} of {file}"
        path_text = str(named) if isinstance(named, int) else named
        _check_is_path(path_text, path, file)
        _check_texts({path: path_text, split: role, group: group_cell}, where)
        if "\n" in f"{path_text}{cell}":
            raise DataError(
                f"{where} has a line break in a cell: close the quotation mark before"
                " it, or remove it"
            )
        place = Path(os.path.normpath(folder / composed(f"{path_text}{ending}")))
        if any(place in rows for rows in parts.values()):
            # The image could be in training and test.
            raise DataError(
                f"{where} has {path_text!r}, which an earlier row has too: keep one"
            )
        group_of[place] = str(group_cell)
        parts.setdefault(split_role(role, file), {})[place] = label_form.names(
            cell, where
        )
    if label_form.separator is not None and all(
        len(classes) < 2 for rows in parts.values() for classes in rows.values()
    ):
        raise DataError(
            f"no cell of column {label!r} of {file} has two labels with"
            f" {label_form.separator!r} between them"
        )
    noun = "numbers" if label_form.are_numbers else "classes"
    fact = f"columns: images from {path!r}, {noun} from {label!r}"
    if split is not None:
        fact += f", splits from {split!r}"
    details: dict[str, Any] = {"is_multi": label_form.separator is not None}
    if label_form.are_numbers:
        details = {"target": label}
    if has_groups:
        fact += f", groups from {group!r}"
        details["group_of"] = group_of
    readers = {
        role: partial(_part, file, rows, skip_broken, facts=(fact,), **details)
        for role, rows in parts.items()
    }
    return source_of(file, readers)


def _split_column(columns: Columns, names: Sequence[str], file: Path) -> str | None:
    """The column of splits; None if there is none."""
    is_usual = any(name.strip().casefold() in NAMES["split"] for name in names)
    if columns["split"] == NO_SPLITS or not (columns["split"] or is_usual):
        return None
    return find_column("split", columns, names, file)


def _check_is_path(cell: Any, column: str, file: Path) -> None:
    """DataError for an image instead of a path."""
    if isinstance(cell, dict | bytes):
        remedy = (
            "datasets.load_dataset('parquet',"
            f" data_files={str(file)!r}).save_to_disk(DIR)"
        )
        raise DataError(
            f"{file} must hold paths, but has images in {column!r}; use {remedy} and"
            " give DIR"
        )


def _check_texts(cells: Mapping[str | None, Any], where: str) -> None:
    """DataError for cells without text.

    Args:
        cells: By column.
        where: The row, for the message.
    """
    for column, cell in cells.items():
        if not isinstance(cell, str):
            raise DataError(
                f"{where} has no text as {column!r}: fill it, or remove the row"
            )


def _read(file: Path) -> Any:
    """The table as a pandas.DataFrame, whose index counts rows as a spreadsheet does.
    An empty cell is None.

    Cells of a CSV file are text; they are empty if they hold nothing or nan.
    """
    pandas = import_extra("pandas", "tables", f"the table {file}")
    is_parquet = file.suffix.lower() in PARQUET_ENDINGS
    n_skipped = 0
    try:
        if is_parquet:
            table = pandas.read_parquet(file)
            table = table.reset_index(drop=table.index.name is None)
        else:
            with file.open(encoding="utf-8-sig") as opened:
                skipped = itertools.takewhile(
                    lambda line: not line.strip() or line.startswith("#"), opened
                )
                n_skipped = len([*skipped])
                opened.seek(0)
                first = "".join(itertools.islice(opened, n_skipped, n_skipped + 1))
            separator = next(
                (candidate for candidate in SEPARATORS if candidate in first), ","
            )
            if named := re.fullmatch(r"sep=(.)\s*", first, re.IGNORECASE):
                # The first line of a spreadsheet's file may name the separator.
                n_skipped = n_skipped + 1
                separator = named[1]
            lines = {
                "sep": separator,
                "encoding": "utf-8-sig",
                "skipinitialspace": True,
                "skip_blank_lines": False,
            }
            lines["skiprows"] = n_skipped
            cells = {
                "dtype": str,
                "keep_default_na": False,
                "na_values": ["", "nan", "NaN"],
            }
            # The first row has the names: as a header, pandas would rename equal ones,
            # and shift rows with more fields.
            table = pandas.read_csv(file, header=None, **lines, **cells).dropna(
                how="all"
            )
            table = table[1:].set_axis(table.iloc[0], axis=1)
    except Exception as error:
        # pandas and pyarrow raise exceptions of many kinds for damaged files.
        raise DataError(
            f"cannot read the table {file} ({reason_of(error)}); mend it, or save it as"
            " UTF-8"
        ) from None
    if table.empty:
        raise DataError(f"the table {file} has no rows")
    # A spreadsheet counts the row of names too.
    table.index = table.index + 1 + n_skipped
    return table.astype(object).where(table.notna(), None)


def _part(
    file: Path,
    rows: Mapping[Path, tuple[str, ...]],
    skip_broken: bool | None,
    group_of: Mapping[Path, str] | None = None,
    **details: Any,
) -> Part:
    """The images of one split, sorted by class and path, with numbers by path.

    Args:
        file: The table.
        rows: Classes, or a number as text, of each image.
        skip_broken: As in DataConfig, for files that are missing.
        group_of: The group of each image; None for none.
        details: Further fields of the part.

    Raises:
        DataError: For missing images, unless they may be left out.
    """
    has_numbers = "target" in details
    named = {_find_file(path): path for path in rows}
    rows = {path: rows[name] for path, name in named.items()}
    paths = sorted(
        rows, key=lambda path: (() if has_numbers else rows[path], path.parts)
    )
    existing = [path for path in paths if path.is_file()]
    missing = [str(path) for path in sorted({*paths} - {*existing})]
    problem = (
        f"{len(missing):,} of the {counted(len(paths), 'image')} of {file} cannot be"
        f" found: {first_of(missing)}"
    )
    if len(missing) > most_left_out(len(paths), skip_broken) or not existing:
        remedy = (
            "--image-folder and --image-ending say where files are, --skip-broken"
            " leaves them out"
        )
        raise DataError(
            f"{problem}; mend the table, whose paths begin at {file.parent}: {remedy}"
        )
    lost = {name for path in paths for name in rows[path]} - {
        name for path in existing for name in rows[path]
    }
    if lost and not has_numbers:
        raise DataError(
            f"{problem}, which leaves none of the class {min(lost)!r}; mend the table,"
            " or remove this class"
        )
    classes = [rows[path] for path in existing]
    folder = Path(os.path.commonpath([path.parent for path in existing]))
    items = FileItems.of(folder, existing, list(map(", ".join, classes)))
    unused = tuple(SkippedFile(path, "no such file") for path in missing)
    if group_of is not None:
        details["groups"] = [group_of[named[path]] for path in existing]
    return Part(items, classes, unused, **details)


def _find_file(path: Path) -> Path:
    """The file of that name, whose accents may be written in any of Unicode's forms; if
    there is none, the path.
    """
    forms = (
        Path(unicodedata.normalize(form, str(path)).strip()) for form in ("NFC", "NFD")
    )
    return next((place for place in (path, *forms) if place.is_file()), path)


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
    """Images with masks of a saved dataset. DataError for a mask that does not fit."""
    dataset = _load_saved(folder)
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
