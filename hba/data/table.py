"""A CSV or Parquet file of image paths and labels, as the class folders that it stands for."""

import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from hba.data.columns import (
    BY_NAME,
    NO_SPLITS,
    Columns,
    check_two_classes,
    class_name,
    indicated,
    listed_columns,
    multi_label_fact,
    numbered,
    split_role,
)
from hba.data.folder import FilePool
from hba.data.formats import PARQUET_ENDINGS
from hba.data.images import Source
from hba.data.labels import present_classes
from hba.data.layout import SPLITS
from hba.data.pictures import NO_CLASS
from hba.data.skipped import NO_IMAGE, SkippedFile
from hba.errors import DataError
from hba.utils.imports import import_extra
from hba.utils.text import counted

if TYPE_CHECKING:
    import pandas

EXTRA = "tables"
SEPARATORS = (",", ";", "\t")
"""Of a CSV file: the first of them that is in its first line."""
EMPTY = ("", "nan", "NaN")
"""Cells of a CSV file that hold nothing."""
IGNORE_SPLITS = f", or ignore the column by --split-column {NO_SPLITS}"


class Row(NamedTuple):
    """An image. number: as a spreadsheet counts rows, the names of the columns included. classes: one, or with a
    separator of labels any number, sorted.
    """

    number: int
    path: Path
    classes: tuple[str, ...]


def table_source(file: Path, columns: Columns = BY_NAME, skip_broken: bool = False) -> Source:
    """The images of the table as a source. Relative paths are relative to the file's folder.

    Classes are sorted by name and images by class and path, as in a folder, so the order of rows decides nothing.
    Reads the table, and looks up for training and validation images whether they are there; no image is opened, and
    of test images nothing is asked before the source's function `test` is called. Raises DataError for a table that
    cannot be used.
    """
    if not file.is_file():
        raise DataError(f"no such file: {file}")
    table = _read(file)
    there = [str(name) for name in table.columns]
    path, label = columns.needed("path", there, file), columns.needed("label", there, file)
    split = None if columns.split == NO_SPLITS else columns.find("split", there, file)
    separator = columns.label_separator
    rows = _rows(file, table, path, label, split, separator)
    if not rows["train"]:
        raise DataError(f"{file} has no rows of the split train; column {split!r} must say train for some")
    class_names = tuple(sorted({name for row in rows["train"] for name in row.classes}))
    if separator is not None:
        _check_separated(file, label, separator, [row.classes for part in rows.values() for row in part])
    check_two_classes(class_names, file)
    is_multi_label = separator is not None
    pool = partial(_pool, file, rows, class_names=class_names, is_multi_label=is_multi_label, skip_broken=skip_broken)
    train = pool("train")
    of_labels = (multi_label_fact(train.labels),) if is_multi_label else ()
    return Source(
        name=str(file),
        class_names=class_names,
        train=train,
        val=pool("val") if rows["val"] else None,
        test=partial(pool, "test") if rows["test"] else None,
        facts=(_fact(file, path, label, split), *of_labels),
    )


def _fact(file: Path, path: str, label: str, split: str | None) -> str:
    splits = "" if split is None else f", splits from {split!r}"
    return f"columns of {file.name}: images from {path!r}, classes from {label!r}{splits}"


def _read(file: Path) -> "pandas.DataFrame":
    """The table, whose index counts rows as a spreadsheet does."""
    is_parquet = file.suffix.lower() in PARQUET_ENDINGS
    import_extra("pandas", EXTRA, f"the table {file}")
    if is_parquet:
        import_extra("pyarrow", EXTRA, f"the table {file}")
    try:
        table = _read_parquet(file) if is_parquet else _read_csv(file)
    except UnicodeDecodeError as error:
        raise DataError(
            f"{file} is not text in UTF-8 ({error.reason} at byte {error.start}); save it as UTF-8"
        ) from None
    except (ValueError, OSError, NotImplementedError) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise DataError(f"cannot read the table {file} ({reason}); mend it, or save it anew") from None
    names = [str(name) for name in table.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise DataError(f"{file} has two columns {twice!r}; rename one of them")
    if not len(table):
        raise DataError(f"{file} has no rows{listed_columns(names)}")
    return table


def _read_csv(file: Path) -> "pandas.DataFrame":
    """All cells as text. The first row names the columns; it is read like the others, so that each is as long as it."""
    import pandas

    with file.open(encoding="utf-8-sig") as opened:
        first = opened.readline()
    if "\0" in first:
        raise ValueError("it is no text")
    separator = next((one for one in SEPARATORS if one in first), ",")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pandas.errors.ParserWarning)
        cells = pandas.read_csv(
            file,
            sep=separator,
            header=None,
            dtype=str,
            encoding="utf-8-sig",
            keep_default_na=False,
            na_values=list(EMPTY),
            skipinitialspace=True,
            skip_blank_lines=False,
        )
    table = cells.iloc[1:].set_axis(["" if one is None else one for one in _present(cells.iloc[0])], axis="columns")
    table.index = table.index + 1
    return table.dropna(how="all")


def _read_parquet(file: Path) -> "pandas.DataFrame":
    import pandas
    import pyarrow.parquet

    # Bytes that are no text would be found only when a cell is looked at.
    pyarrow.parquet.read_table(file).validate(full=True)
    table = pandas.read_parquet(file, engine="pyarrow").reset_index(drop=True)
    table.index = table.index + 1
    return table


def _present(series: Any) -> list[Any]:
    """The values as Python's, None for a missing one."""
    return [None if missing else value for value, missing in zip(series.tolist(), series.isna(), strict=True)]


def _rows(
    file: Path, table: "pandas.DataFrame", path: str, label: str, split: str | None, separator: str | None
) -> Mapping[str, Sequence[Row]]:
    """The rows of each part. DataError for cells that hold nothing or what they should not, and for a path that stands
    there twice: images could then be in training and test.
    """
    rows: dict[str, list[Row]] = {part: [] for part in SPLITS}
    number_of: dict[str, int] = {}
    roles: dict[str, str] = {}
    folder = file.parent.absolute()
    parts = ["train"] * len(table) if split is None else _present(table[split])
    cells = zip(table.index.tolist(), _present(table[path]), _present(table[label]), parts, strict=True)
    for number, given, class_label, part in cells:
        where = f"row {number} of {file}"
        if given is None or part is None:
            raise DataError(f"{where} has no {path if given is None else split}: fill it, or remove the row")
        if not isinstance(given, str):
            hint = "; save images that stand in the table itself by the library datasets" if _is_image(given) else ""
            raise DataError(f"column {path!r} of {file} must hold paths, but row {number} has {_kind(given)}{hint}")
        classes = _classes_of(class_label, f"{where} ({given!r})", label, separator)
        joined = folder / given
        plain = os.path.normpath(joined)
        if (earlier := number_of.setdefault(plain, number)) != number:
            raise DataError(f"{file} has {given!r} twice, in the rows {earlier} and {number}: keep one of them")
        if str(part) not in roles:
            roles[str(part)] = split_role(str(part), where, IGNORE_SPLITS)
        place = joined if plain == str(joined) else Path(plain)
        rows[roles[str(part)]].append(Row(number, place, classes))
    return rows


def _classes_of(label: Any, where: str, column: str, separator: str | None) -> tuple[str, ...]:
    """separator: between several labels; an empty cell then is an image without one."""
    try:
        name = None if label is None else class_name(label)
    except ValueError as error:
        raise DataError(f"{where} has as {column} {error}") from None
    if separator is not None:
        return tuple(sorted({part.strip() for part in (name or "").split(separator)} - {""}))
    if name is None:
        raise DataError(
            f"{where} has no {column}: fill it, or remove the row; in a table of several labels for an image an empty "
            "cell is none of them, with --label-separator"
        )
    return (name,)


def _check_separated(file: Path, column: str, separator: str, classes: Sequence[tuple[str, ...]]) -> None:
    """DataError where no image has two labels: the separator is then another character, or there is none."""
    if all(len(of_image) < 2 for of_image in classes):
        example = next((of_image[0] for of_image in classes if of_image), "")
        raise DataError(
            f"no cell of column {column!r} of {file} has two labels with the separator {separator!r} between them, "
            f"such as {example!r}: give the one that it has, or omit it where each image has one label"
        )


def _is_image(value: Any) -> bool:
    return isinstance(value, bytes | dict)


def _kind(value: Any) -> str:
    return f"the {type(value).__name__} {value!r}" if isinstance(value, int | float) else f"a {type(value).__name__}"


def _pool(
    file: Path,
    rows: Mapping[str, Sequence[Row]],
    part: str,
    *,
    class_names: tuple[str, ...],
    is_multi_label: bool,
    skip_broken: bool,
) -> FilePool:
    """The images of one part, sorted by class and path. DataError for one that is not there, unless it may be omitted;
    a class without images is noted, as of a folder.
    """
    of_part = sorted(rows[part], key=lambda row: (row.classes, row.path.parts))
    where = f"the split {part} of {file}"
    if is_multi_label:
        labels = indicated([row.classes for row in of_part], class_names, where)
    else:
        labels = numbered([row.classes[0] for row in of_part], class_names, where)
    reasons = [_why_not(row.path) for row in of_part]
    missing = [row for row, reason in zip(of_part, reasons, strict=True) if reason]
    if missing and not skip_broken:
        first = min(missing, key=lambda row: row.number)
        raise DataError(
            f"{len(missing):,} of the {counted(len(of_part), 'image')} of {file} cannot be found, row {first.number} "
            f"first: {str(first.path)!r} ({_why_not(first.path)}); mend the table, whose paths begin at {file.parent}, "
            "or use --skip-broken"
        )
    if len(missing) == len(of_part):
        raise DataError(
            f"none of the {counted(len(of_part), 'image')} of {file} can be found, {str(of_part[0].path)!r} first"
        )
    unused = [
        (NO_CLASS if is_multi_label else int(label), SkippedFile(str(row.path), reason))
        for row, label, reason in zip(of_part, labels, reasons, strict=True)
        if reason
    ]
    kept = np.flatnonzero([not reason for reason in reasons])
    absent = sorted(set(range(len(class_names))) - set(present_classes(labels[kept]))) if part != "train" else []
    unused += [(label, SkippedFile(f"{file}, {part}, {class_names[label]}", NO_IMAGE)) for label in absent]
    paths = tuple(of_part[index].path for index in kept)
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    return FilePool(folder, paths, labels[kept], skip_broken, tuple(unused), class_names=class_names)


def _why_not(path: Path) -> str:
    """Why there is no file to read; empty where there is one."""
    try:
        return "" if S_ISREG(path.stat().st_mode) else "not a file"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        return str(reason).lower()
