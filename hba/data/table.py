"""Images in the rows of a CSV or Parquet file, which has paths and labels."""

import itertools
import os
import re
import unicodedata
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hba.data.columns import NAMES, Columns, LabelForm, find_column
from hba.data.labels import composed, split_role
from hba.data.pool import FileItems, Part, Source, most_left_out, source_of
from hba.data.reading import SkippedFile
from hba.errors import DataError
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted, first_of

NO_SPLITS = "none"
"""As the name of the column of splits, it means that there is none, whatever columns
the table has.
"""
PARQUET_ENDINGS = (".parquet", ".pq")
SEPARATORS = (",", ";", "\t")
"""Of a CSV file, the separator is the first of these that occurs in its first line."""


class TableSettings(NamedTuple):
    """How a table is read."""

    columns: Columns
    label_form: LabelForm
    image_folder: str | None = None
    """Folder that relative paths are relative to, itself relative to the folder of the
    table; None for the latter.
    """
    image_ending: str | None = None
    """Of files, which the paths lack."""
    skip_broken: bool | None = None
    """As in DataConfig, for files that are missing."""
    group: str | None = None
    """The column of groups, if the table has one of this name."""

    def file(self, table: Path, path: str) -> Path:
        """The file of an image, by its path in the table."""
        folder = table.parent.absolute() / (self.image_folder or "")
        ending = self.image_ending or ""
        if ending and not ending.startswith("."):
            ending = f".{ending}"
        return Path(os.path.normpath(folder / composed(f"{path}{ending}")))


class _Row(NamedTuple):
    """A row of a table."""

    path: Path
    """The file of the image."""
    labels: tuple[str, ...]
    """The classes of the image, or its number as text."""
    split: str
    group: str
    """Empty without groups."""


class _ColumnNames(NamedTuple):
    """The columns of a table that are used; None for those that it lacks."""

    path: str
    label: str
    split: str | None
    group: str | None

    @staticmethod
    def of(file: Path, names: Sequence[str], settings: TableSettings) -> "_ColumnNames":
        """Find them among the names. DataError if that is impossible."""
        columns = settings.columns
        option = settings.label_form.option
        return _ColumnNames(
            find_column("path", columns, names, file),
            find_column("label", columns, names, file, option),
            _split_column(columns, names, file),
            settings.group if settings.group in names else None,
        )

    def fact(self, noun: str) -> str:
        """A sentence on their uses. noun: what the labels are."""
        uses = {
            "images": self.path,
            noun: self.label,
            "splits": self.split,
            "groups": self.group,
        }
        used = [f"{use} from {name!r}" for use, name in uses.items() if name]
        return f"columns: {', '.join(used)}"


def table_source(file: Path, settings: TableSettings) -> Source:
    """The images of a CSV or Parquet file.

    Classes are sorted by name and images by class and path, with numbers by path only,
    so the order of rows does not matter. Training and validation images must exist, but
    none is opened.

    Raises:
        DataError: For an unusable table.
    """
    table = _read(file)
    label_form = settings.label_form
    names = _ColumnNames.of(file, list(map(str, table.columns)), settings)
    rows = _rows(file, table, names, settings)
    if label_form.separator is not None and all(len(row.labels) < 2 for row in rows):
        raise DataError(
            f"no cell of column {names.label!r} of {file} has two labels with"
            f" {label_form.separator!r} between them"
        )
    details: dict[str, Any] = {
        "facts": (names.fact("numbers" if label_form.are_numbers else "classes"),),
        "is_multi": label_form.separator is not None,
        "target": names.label if label_form.are_numbers else None,
    }
    rows_by_split: dict[str, list[_Row]] = {}
    for row in rows:
        rows_by_split.setdefault(row.split, []).append(row)
    readers = {
        split: partial(_part, file, split_rows, settings.skip_broken, details)
        for split, split_rows in rows_by_split.items()
    }
    return source_of(file, readers)


def _rows(
    file: Path, table: Any, names: _ColumnNames, settings: TableSettings
) -> list[_Row]:
    """The rows of a table. DataError for one without text, and for equal paths."""
    splits = ["train"] * len(table) if names.split is None else table[names.split]
    groups: list[str | None] = [""] * len(table)
    if names.group is not None:
        # Parquet files may have numbers.
        groups = [None if cell is None else str(cell) for cell in table[names.group]]
    rows: dict[Path, _Row] = {}
    for number, path_cell, label, split, group in zip(
        table.index, table[names.path], table[names.label], splits, groups, strict=True
    ):
        where = f"row {number} of {file}"
        path = str(path_cell) if isinstance(path_cell, int) else path_cell
        _check_is_path(path, names.path, file)
        _check_texts({names.path: path, names.split: split, names.group: group}, where)
        if "\n" in f"{path}{label}":
            raise DataError(
                f"{where} has a line break in a cell: close the quotation mark before"
                " it, or remove it"
            )
        place = settings.file(file, path)
        if place in rows:
            # The image could be in training and test.
            raise DataError(
                f"{where} has {path!r}, which an earlier row has too: keep one"
            )
        labels = settings.label_form.names(label, where)
        rows[place] = _Row(place, labels, split_role(split, file), str(group))
    return [*rows.values()]


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
    rows: Sequence[_Row],
    skip_broken: bool | None,
    details: Mapping[str, Any],
) -> Part:
    """The images of one split, sorted by class and path, with numbers by path.

    Args:
        file: The table.
        rows: Those of the split.
        skip_broken: As in DataConfig, for files that are missing.
        details: Further fields of the part.

    Raises:
        DataError: For missing images, unless they may be left out.
    """
    has_numbers = details["target"] is not None
    rows = sorted(
        (row._replace(path=_find_file(row.path)) for row in rows),
        key=lambda row: (() if has_numbers else row.labels, row.path.parts),
    )
    existing: list[_Row] = []
    missing: list[_Row] = []
    for row in rows:
        (existing if row.path.is_file() else missing).append(row)
    problem = (
        f"{len(missing):,} of the {counted(len(rows), 'image')} of {file} cannot be"
        f" found: {first_of(sorted(str(row.path) for row in missing))}"
    )
    if len(missing) > most_left_out(len(rows), skip_broken) or not existing:
        remedy = (
            "--image-folder and --image-ending say where files are, --skip-broken"
            " leaves them out"
        )
        raise DataError(
            f"{problem}; mend the table, whose paths begin at {file.parent}: {remedy}"
        )
    lost = {name for row in missing for name in row.labels} - {
        name for row in existing for name in row.labels
    }
    if lost and not has_numbers:
        raise DataError(
            f"{problem}, which leaves none of the class {min(lost)!r}; mend the table,"
            " or remove this class"
        )
    paths = [row.path for row in existing]
    labels = [row.labels for row in existing]
    groups = [row.group for row in existing]
    folder = Path(os.path.commonpath([path.parent for path in paths]))
    return Part(
        FileItems.of(folder, paths, list(map(", ".join, labels))),
        labels,
        tuple(SkippedFile(str(row.path), "no such file") for row in missing),
        groups=groups if any(groups) else (),
        **details,
    )


def _find_file(path: Path) -> Path:
    """The file of that name, whose accents may be written in any of Unicode's forms; if
    there is none, the path.
    """
    forms = (
        Path(unicodedata.normalize(form, str(path)).strip()) for form in ("NFC", "NFD")
    )
    return next((place for place in (path, *forms) if place.is_file()), path)
