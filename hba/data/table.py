"""Images in rows: a CSV or Parquet table of image files, or a folder that the library `datasets` has saved."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from torch import Tensor

from hba.data.labels import (
    SPLITS,
    check_two_classes,
    class_name,
    labels_of,
    multi_label_fact,
    present_classes,
    split_role,
)
from hba.data.leakage import ImageHash, hash_of_bytes, hash_of_file
from hba.data.pool import NO_CLASS, NO_IMAGE, FileItems, Items, Pool, Source
from hba.data.reading import Deep, Encoded, ImageFile, Levels, SkippedFile, deep_or_none, read_image
from hba.errors import DataError
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted, did_you_mean, first_of

Role = Literal["path", "label", "split"]
NAMES: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "path": ("path", "file", "filename", "file_name", "image", "image_path"),
        "label": ("label", "class", "target"),
        "split": ("split",),
    }
)
"""What columns are called where no setting names them; case does not count."""
NO_SPLITS = "none"
"""Given as the column of splits, it says that there is none, whatever columns there are."""
PARQUET_ENDINGS = (".parquet", ".pq")
SEPARATORS = (",", ";", "\t")
"""Of a CSV file: the first of them that is in its first line."""
EMPTY = ("", "nan", "NaN")
"""Cells of a CSV file that hold nothing."""
SPLITS_FILE = "dataset_dict.json"
"""In what `datasets` saves of several splits."""


@dataclass(frozen=True)
class Columns:
    """Names of columns that were given, None where not. label_separator: between the labels of an image in a cell."""

    path: str | None = None
    label: str | None = None
    split: str | None = None
    label_separator: str | None = None

    def find(self, role: Role, there: Sequence[str], data: object, is_needed: bool = True) -> str | None:
        """The column that was given, or that with one of its usual names; DataError for none, and for several."""
        given: str | None = getattr(self, role)
        found = [name for name in there if (name == given if given else name.strip().casefold() in NAMES[role])]
        if len(found) == 1 or not (found or given or is_needed):
            return found[0] if found else None
        meant = f"column {given!r}{did_you_mean(given, there)}" if given else f"single column called {NAMES[role][0]}"
        columns = first_of([repr(name) for name in there], 8)
        raise DataError(f"{data} has no {meant}: choose one by --{role}-column; columns: {columns}")


class Row(NamedTuple):
    """An image. number: as a spreadsheet counts rows, with the row of names. classes: one, or any number, sorted."""

    number: int
    path: Path
    classes: tuple[str, ...]


def table_source(file: Path, columns: Columns, skip_broken: bool = False) -> Source:
    """The images of a CSV or Parquet file. Relative paths are relative to the file's folder.

    Classes are sorted by name and images by class and path, as in a folder, so the order of rows does not matter. Reads
    the table, and looks whether training and validation images exist; no image is opened, and test images are not
    looked at before the source's function `test` is called. DataError for a table that cannot be used.
    """
    table = _read(file)
    there = [str(name) for name in table.columns]
    path, label = columns.find("path", there, file), columns.find("label", there, file)
    split = None if columns.split == NO_SPLITS else columns.find("split", there, file, is_needed=False)
    rows = _rows(file, table, (path, label, split), columns.label_separator)
    if not rows["train"]:
        raise DataError(f"{file} has no rows of the split train; column {split!r} must say train for some")
    class_names = tuple(sorted({name for row in rows["train"] for name in row.classes}))
    separator = columns.label_separator
    if separator is not None and all(len(row.classes) < 2 for part in rows.values() for row in part):
        raise DataError(f"no cell of column {label!r} of {file} has two labels with {separator!r} between them")
    check_two_classes(class_names, file)
    pool = partial(_pool, file, rows, class_names, separator is not None, skip_broken)
    train, val, test = pool("train"), pool("val") if rows["val"] else None, partial(pool, "test")
    splits = "" if split is None else f", splits from {split!r}"
    fact = f"columns of {file.name}: images from {path!r}, classes from {label!r}{splits}"
    facts = (fact, *([multi_label_fact(train.labels)] if separator is not None else []))
    return Source(str(file), class_names, train, val, test if rows["test"] else None, facts=facts)


def _read(file: Path) -> Any:
    """The table as a pandas.DataFrame, whose index counts rows as a spreadsheet does."""
    is_parquet = file.suffix.lower() in PARQUET_ENDINGS
    pandas = import_extra("pandas", "tables", f"the table {file}")
    if is_parquet:
        import_extra("pyarrow", "tables", f"the table {file}")
    try:
        table = pandas.read_parquet(file).reset_index(drop=True) if is_parquet else _read_csv(file, pandas)
    except Exception as error:
        # pandas and pyarrow raise exceptions of many kinds for damaged files.
        raise DataError(f"cannot read the table {file} ({reason_of(error)}); save it anew, as UTF-8") from None
    if not len(table):
        raise DataError(f"{file} has no rows")
    # A spreadsheet counts the row of names too.
    table.index = table.index + (1 if is_parquet else 2)
    return table


def _read_csv(file: Path, pandas: Any) -> Any:
    """All cells as text."""
    with file.open(encoding="utf-8-sig") as opened:
        first = opened.readline()
    with warnings.catch_warnings():
        # Of rows with more cells than there are columns.
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        return pandas.read_csv(
            file,
            sep=next((one for one in SEPARATORS if one in first), ","),
            index_col=False,
            dtype=str,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values=list(EMPTY),
            skipinitialspace=True,
            skip_blank_lines=False,
        ).dropna(how="all")


def _present(series: Any) -> list[Any]:
    """The values as Python's, None for a missing one."""
    return [None if missing else value for value, missing in zip(series.tolist(), series.isna(), strict=True)]


def _rows(
    file: Path, table: Any, columns: tuple[str | None, str | None, str | None], separator: str | None
) -> Mapping[str, Sequence[Row]]:
    """The rows of each split. DataError for cells that hold nothing or what they should not, and for a path that occurs
    twice: its image could be in training and test.
    """
    path, label, split = columns
    rows: dict[str, list[Row]] = {part: [] for part in SPLITS}
    number_of: dict[str, int] = {}
    folder = file.parent.absolute()
    parts = ["train"] * len(table) if split is None else _present(table[split])
    cells = zip(table.index.tolist(), _present(table[path]), _present(table[label]), parts, strict=True)
    for number, given, class_label, part in cells:
        where = f"row {number} of {file}"
        if not isinstance(given, str) or part is None:
            named, value = (split, part) if isinstance(given, str) else (path, given)
            shown = "no" if value is None else f"a {type(value).__name__} as"
            raise DataError(f"{where} has {shown} {named}: fill it with text, or remove the row")
        place = os.path.normpath(folder / given)
        if number_of.setdefault(place, number) != number:
            raise DataError(
                f"{file} has {given!r} twice, in the rows {number_of[place]} and {number}: keep one of them"
            )
        classes = _classes_of(class_label, f"{where} ({given!r})", label, separator)
        role = split_role(str(part), where, f", or ignore the column by --split-column {NO_SPLITS}")
        rows[role].append(Row(number, Path(place), classes))
    return rows


def _classes_of(label: Any, where: str, column: str | None, separator: str | None) -> tuple[str, ...]:
    """separator: between several labels; an empty cell then is an image without one."""
    name = class_name(label, where)
    if separator is not None:
        return tuple(sorted({part.strip() for part in (name or "").split(separator)} - {""}))
    if name is None:
        raise DataError(f"{where} has no {column}: fill it, or remove the row, or give --label-separator")
    return (name,)


def _pool(
    file: Path,
    rows: Mapping[str, Sequence[Row]],
    names: Sequence[str],
    is_multi: bool,
    skip_broken: bool,
    part: str,
) -> Pool:
    """The images of one split, sorted by class and path. DataError for one that is not there, unless it may be omitted;
    a class without images is noted, as of a folder.
    """
    of_part = sorted(rows[part], key=lambda row: (row.classes, row.path.parts))
    labels = labels_of([row.classes for row in of_part], names, f"the split {part} of {file}", is_multi)
    missing = [index for index, row in enumerate(of_part) if not row.path.is_file()]
    if missing and (not skip_broken or len(missing) == len(of_part)):
        first = min((of_part[index] for index in missing), key=lambda row: row.number)
        raise DataError(
            f"{len(missing):,} of the {counted(len(of_part), 'image')} of {file} cannot be found, row {first.number} "
            f"first: {str(first.path)!r}; mend the table, whose paths begin at {file.parent}, or use --skip-broken"
        )
    unused = [
        (NO_CLASS if is_multi else int(labels[index]), SkippedFile(str(of_part[index].path), "no such file"))
        for index in missing
    ]
    kept = sorted(set(range(len(of_part))) - set(missing))
    absent = sorted(set(range(len(names))) - set(present_classes(labels[kept]))) if part != "train" else []
    unused += [(label, SkippedFile(f"{file}, {part}, {names[label]}", NO_IMAGE)) for label in absent]
    paths = [of_part[index].path for index in kept]
    classes = [", ".join(of_part[index].classes) for index in kept]
    items = FileItems.of(Path(os.path.commonpath([path.parent for path in paths])), paths, classes)
    return Pool(items, labels[kept], skip_broken, tuple(unused))


@dataclass(frozen=True, eq=False)
class SavedItems(Items):
    """Images in the rows of a saved dataset. dataset: of one column, of encoded images. classes: of each row."""

    dataset: Any
    column: str
    place: str
    classes: tuple[str, ...]
    hashed_by = "files"

    def _file(self, number: int) -> ImageFile:
        """The image's own bytes, or the file that the row names in their place."""
        image = self.dataset[number][self.column] or {}
        if image.get("bytes") is not None:
            return Encoded(self.name(number), image["bytes"])
        if image.get("path") is None:
            raise DataError("the row holds no image")
        return Path(image["path"])

    def name(self, number: int) -> str:
        return f"number {number} of {self.place}"

    def read(self, number: int, image_size: int, levels: Levels | None) -> Tensor:
        return read_image(self._file(number), image_size, levels)

    def deep(self, number: int) -> Deep | None:
        try:
            return deep_or_none(self._file(number))
        except DataError:
            return None

    def hash(self, number: int) -> ImageHash:
        """The hash of the same file in a folder of its class; broken rows of one class and name are the same."""
        path = (self.dataset[number][self.column] or {}).get("path")
        known_as = f"{self.classes[number]}/{Path(path or '').name}"
        try:
            file = self._file(number)
            return hash_of_bytes(file.content, known_as) if isinstance(file, Encoded) else hash_of_file(file, known_as)
        except DataError:
            return ImageHash(hash_of_bytes(b"", known_as).key, 0)


class _Part(NamedTuple):
    """One split of a saved dataset. own_names: of a ClassLabel, else (). classes: of each row."""

    images: Any
    image: str
    label: str
    own_names: tuple[str, ...]
    classes: tuple[str, ...]


def saved_source(folder: Path, columns: Columns, skip_broken: bool = False) -> Source:
    """A dataset that `datasets.Dataset.save_to_disk` has saved, with its splits where it has some.

    Images come class by class, each class in the order of its rows. The classes of a ClassLabel keep their order; other
    labels are sorted as text, as a folder's classes are. The files of a test split are not opened before it is asked
    for. DataError for datasets that cannot be used.
    """
    parts = _saved_parts(folder)
    train = _saved_part(parts["train"], columns)
    class_names = train.own_names or tuple(sorted(set(train.classes)))
    check_two_classes(class_names, folder)

    def pool(part: str) -> Pool:
        opened = train if part == "train" else _saved_part(parts[part], columns)
        labels = labels_of([[name] for name in opened.classes], class_names, f"the split {part} of {folder}")
        order = labels.argsort(stable=True)
        items = SavedItems(opened.images, opened.image, str(parts[part]), opened.classes)
        return Pool(items, labels[order], skip_broken, numbers=order)

    fact = f"columns of {folder.name}: images from {train.image!r}, classes from {train.label!r}"
    val, test = pool("val") if "val" in parts else None, partial(pool, "test") if "test" in parts else None
    return Source(str(folder), class_names, pool("train"), val, test, facts=(fact,))


def _saved_part(folder: Path, columns: Columns) -> _Part:
    datasets = import_extra("datasets", "datasets", f"the saved dataset {folder}")
    try:
        dataset = datasets.load_from_disk(str(folder)).with_format(None)
    except Exception as error:
        # Damaged files make it raise exceptions of any kind.
        raise DataError(f"cannot read the saved dataset {folder} ({reason_of(error)}); save it anew") from None

    def of_kind(kind: type) -> list[str]:
        return [name for name, feature in dataset.features.items() if isinstance(feature, kind)]

    images, labels = of_kind(datasets.Image), of_kind(datasets.ClassLabel)
    image = images[0] if len(images) == 1 and columns.path is None else str(columns.find("path", images, folder))
    others = labels if len(labels) == 1 and columns.label is None else [one for one in dataset.features if one != image]
    label = others[0] if others is labels else str(columns.find("label", others, folder))
    own = tuple(getattr(dataset.features[label], "names", ()))
    classes = []
    for number, value in enumerate(dataset.select_columns([label])[:][label]):
        name = (None if value is None or value < 0 else own[value]) if own else class_name(value, f"number {number}")
        if name is None:
            raise DataError(f"number {number} of {folder} has no {label}: fill it, or remove the row")
        classes.append(name)
    encoded = dataset.select_columns([image]).cast_column(image, datasets.Image(decode=False))
    return _Part(encoded, image, label, own, tuple(classes))


def _saved_parts(folder: Path) -> Mapping[str, Path]:
    """By split, the folder of its files. A dataset without splits is all for training, from which splits are drawn."""
    splits = folder / SPLITS_FILE
    if not splits.is_file():
        return {"train": folder}
    try:
        names = json.loads(splits.read_text(encoding="utf-8"))["splits"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataError(f"cannot read {splits} ({reason_of(error)}); save the dataset anew") from None
    parts = {split_role(name, str(folder)): folder / name for name in names}
    if len(parts) < len(names) or "train" not in parts:
        raise DataError(f"{folder} must have one split for training and at most one each of val and test, got {names}")
    return parts
