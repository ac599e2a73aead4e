"""Parts of WikiText-2's held-out text, as a folder of text."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from hba.errors import SettingsError
from hba.utils.files import write_text

FOLDER = "wikitext-2-heldout"
DATA_FOLDER = "HBA_DATA"


def source(data: str | None) -> Path:
    """The folder of valid.txt and test.txt; SettingsError where nothing says it."""
    if data is not None:
        return Path(data)
    if DATA_FOLDER not in os.environ:
        raise SettingsError(f"--data must name the folder of {FOLDER}, or {DATA_FOLDER} the one that it is in")
    return Path(os.environ[DATA_FOLDER]) / FOLDER


def write_parts(folder: Path, wanted: Mapping[str, int], into: Path) -> Path:
    """train.txt from valid.txt, valid.txt and test.txt one behind the other from test.txt; so many words, with the ends
    of lines, up to the end of a line.
    """
    if not (into / "test.txt").exists():
        into.mkdir(parents=True, exist_ok=True)
        write_text(into / "train.txt", "".join(_lines(folder / "valid.txt", 0, wanted["train"])))
        end = wanted["valid"] + wanted["test"]
        write_text(into / "valid.txt", "".join(_lines(folder / "test.txt", 0, wanted["valid"])))
        write_text(into / "test.txt", "".join(_lines(folder / "test.txt", wanted["valid"], end)))
    return into


def _lines(path: Path, first: int, end: int) -> Iterator[str]:
    """The lines that begin at word `first` or later, and before word `end`."""
    place = 0
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if first <= place < end:
            yield line
        place += len(line.split()) + 1
