"""Columns of tables and of saved datasets: their names, and labels in their cells."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from hba.data.labels import classes_of, composed, number_text
from hba.errors import DataError
from hba.utils.text import did_you_mean, first_of

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
