"""Columns of a table or a saved dataset: which of them hold images, labels and splits, and the classes of labels."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from hba.data.layout import SPLITS, UNCLEAR, split_called, unknown_class
from hba.errors import DataError, SettingsError
from hba.utils.text import counted, did_you_mean, first_of

Role = Literal["path", "label", "split"]

NAMES: Mapping[Role, tuple[str, ...]] = MappingProxyType(
    {
        "path": ("path", "file", "filename", "file_name", "image", "image_path"),
        "label": ("label", "class", "target"),
        "split": ("split",),
    }
)
"""What columns are called where nobody says which they are; case does not count."""
NO_SPLITS = "none"
"""Given as the column of splits, it says that there is none, whatever columns there are."""
SHOWN_COLUMNS = 8


@dataclass(frozen=True)
class Columns:
    """Names of columns that were given, None where not, and what separates the labels in a cell."""

    path: str | None = None
    label: str | None = None
    split: str | None = None
    label_separator: str | None = None
    """Between the labels of an image; None where it has one."""

    def check_idle(
        self, data: str, roles: Iterable[Role] = ("path", "label", "split"), why: str = "has no columns to choose"
    ) -> None:
        """SettingsError where one of the roles is given, for data that have no such column."""
        if self.label_separator is not None:
            raise SettingsError(f"label_separator has no effect on {data}, which is no table; omit it")
        for role in roles:
            if getattr(self, role) is not None:
                raise SettingsError(f"{role}_column has no effect on {data}, which {why}; omit it")

    def find(self, role: Role, there: Sequence[str], data: object) -> str | None:
        """The column that was given, or the one that is called like it; None where there is none.

        there: all that can be it. DataError for a column that is not there, and where several could be meant.
        """
        given = getattr(self, role)
        if given is not None:
            if given not in there:
                raise DataError(f"{data} has no column {given!r}{did_you_mean(given, there)}{listed_columns(there)}")
            return str(given)
        found = [name for name in there if name.strip().casefold() in NAMES[role]]
        if len(found) > 1:
            raise DataError(
                f"the columns {' and '.join(map(repr, found))} of {data} could each be the {role}: choose one by "
                f"--{role}-column"
            )
        return found[0] if found else None

    def needed(self, role: Role, there: Sequence[str], data: object) -> str:
        """find, where there must be one; else DataError."""
        found = self.find(role, there, data)
        if found is None:
            raise DataError(
                f"{data} has no column called {', '.join(NAMES[role][:-1])} or {NAMES[role][-1]}: name the one of the "
                f"{role}s by --{role}-column{listed_columns(there)}"
            )
        return found


BY_NAME = Columns()
"""Every column is found by its name."""


def listed_columns(names: Sequence[str]) -> str:
    return f"; columns: {first_of([repr(name) for name in names], SHOWN_COLUMNS)}"


def class_name(label: Any) -> str | None:
    """What a label calls the class of an image, as a folder would be called; None where it is empty.

    Whole numbers are classes like names are. ValueError, in words, for what is no class.
    """
    if isinstance(label, str):
        return label.strip() or None
    if isinstance(label, bool | np.bool_):
        return str(bool(label))
    if isinstance(label, Integral):
        return str(int(label))
    if isinstance(label, Real):
        value = float(label)
        if math.isnan(value):
            return None
        if value.is_integer():
            return str(int(value))
        raise ValueError(f"{value:.7g}, no whole number: only classes can be learned")
    if isinstance(label, list | tuple | np.ndarray):
        raise ValueError(
            f"{len(label)} values: of several labels of an image make one text, and name what separates them by "
            "--label-separator"
        )
    raise ValueError(f"a {type(label).__name__}: a class is text or a whole number")


def split_role(name: str, where: str, advice: str = "") -> str:
    """train, val or test for a split of that name; DataError for another one, with further advice.

    where: `row 7 of FILE`.
    """
    role = split_called(name)
    if role == UNCLEAR:
        raise DataError(
            f"{where} has the split {name!r}, which could be either: call it val, which a search may see, or test, "
            "which it may not"
        )
    if role is None:
        raise DataError(
            f"{where} has the split {name!r}, but splits must be called {', '.join(SPLITS)}; rename it{advice}"
        )
    return role


def numbered(names: Sequence[str], class_names: Sequence[str], part: str) -> np.ndarray:
    """The label of each name (n,), its place among the class names; DataError for a name that is not among them."""
    number = {name: place for place, name in enumerate(class_names)}
    unknown = next((name for name in names if name not in number), None)
    if unknown is not None:
        raise unknown_class(part, unknown, class_names)
    return np.array([number[name] for name in names], dtype=np.int64)


def indicated(names: Sequence[Sequence[str]], class_names: Sequence[str], part: str) -> np.ndarray:
    """Which of the classes each image has, bool (n, classes); DataError for a name that is not among them.

    names: those of each image, none for one without a label.
    """
    found = np.zeros((len(names), len(class_names)), dtype=bool)
    counts = [len(of_image) for of_image in names]
    columns = numbered([name for of_image in names for name in of_image], class_names, part)
    found[np.repeat(np.arange(len(names)), counts), columns] = True
    return found


def multi_label_fact(labels: np.ndarray) -> str:
    """What to know of labels (n, classes)."""
    per_image = labels.sum(axis=1)
    without = f", {counted(int((per_image == 0).sum()), 'image')} without" if (per_image == 0).any() else ""
    if (per_image == 1).all():
        return "each image has one label: to learn one class of an image, give labels as numbers or names"
    on_average = f"{per_image.mean():.2g} on average"
    return f"labels an image: {on_average}{without}; splits that are drawn are drawn at random, not by class"


def check_two_classes(class_names: Sequence[str], data: object) -> None:
    if not class_names:
        raise DataError(f"{data} must have a label in some rows of the split train, and has none")
    if len(class_names) < 2:
        raise DataError(f"{data} has one class only, {class_names[0]!r}: add images of another")
