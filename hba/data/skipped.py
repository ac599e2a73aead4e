"""Files of a folder that are not used, and why."""

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hba.errors import RunError
from hba.utils.files import write_text

LEFT_OUT_NAME = "left_out.csv"
NO_IMAGE = "no image of this class"
"""The reason of a folder, not of a file."""


@dataclass(frozen=True)
class SkippedFile:
    """A file that was not used, or a folder of which nothing was, and the reason in a few words."""

    path: str
    reason: str


def without_doubles(*parts: Iterable[SkippedFile]) -> tuple[SkippedFile, ...]:
    """What is in the parts, each path once, at its first place."""
    by_path: dict[str, SkippedFile] = {}
    for part in parts:
        for item in part:
            by_path.setdefault(item.path, item)
    return tuple(by_path.values())


def save_left_out(folder: Path, left_out: Sequence[SkippedFile]) -> None:
    """Write left_out.csv into the folder, whole or not at all; where nothing is left out there is no such file."""
    path = folder / LEFT_OUT_NAME
    if not left_out:
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise RunError(f"cannot remove {path}: {error.strerror}") from None
        return
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(("path", "reason"))
    # A name may hold bytes that are no UTF-8.
    writer.writerows((item.path.encode(errors="backslashreplace").decode(), item.reason) for item in left_out)
    write_text(path, text.getvalue())
