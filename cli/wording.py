"""Words that several commands have in common: names of classes, time, files that are left out."""

from collections.abc import Sequence
from pathlib import Path

from hba.data.skipped import LEFT_OUT_NAME
from hba.utils.text import counted, first_of

N_CLASSES_NAMED = 10
N_OF_MANY = 3
LONGEST_NAMES = 200
"""Characters of class names on one line."""


def class_words(names: Sequence[str]) -> str:
    """`2 classes: cats, dogs`, and of more than ten, or of long names, the first three."""
    names = [name if name.isprintable() else ascii(name)[1:-1] for name in names]
    named = ", ".join(names)
    if len(names) > N_CLASSES_NAMED or len(named) > LONGEST_NAMES:
        longest = LONGEST_NAMES // N_OF_MANY
        cut = [name if len(name) <= longest else f"{name[:longest]}..." for name in names]
        named = first_of(cut, N_OF_MANY)
    return f"{len(names)} classes: {named}"


def left_out_words(n_files: int, folder: Path | None) -> str:
    """`; 2 files left out: runs/pets-1/left_out.csv`, nothing for none."""
    names = "" if folder is None else f": {folder / LEFT_OUT_NAME}"
    return f"; {counted(n_files, 'file')} left out{names}" if n_files else ""


def minutes_words(minutes: float) -> str:
    """`About 12 minutes`, in hours from two on."""
    if minutes < 1:
        return "Less than a minute"
    if minutes < 1.5:
        return "About a minute"
    return f"About {minutes:.0f} minutes" if minutes < 120 else f"About {minutes / 60:.1f} hours"
