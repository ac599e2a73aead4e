"""What a path of data is, by its name and by the names of the files in it: nothing is read."""

from pathlib import Path
from typing import Literal

Format = Literal["folder", "table", "npz", "saved", "prepared"]
"""A folder of class folders, a table of paths and labels, arrays of NumPy, what the library datasets has saved, or what
`hba prepare` has written.
"""

CSV_ENDINGS = (".csv", ".tsv")
PARQUET_ENDINGS = (".parquet", ".pq")
SPLITS_FILE = "dataset_dict.json"
"""In what datasets saves of several splits; each is a folder of its own, with these files:"""
SAVED_FILES = ("dataset_info.json", "state.json")
PREPARED_NAME, PREPARING_NAME = "prepared_images.json", "preparing.json"
"""Of prepared images, what says what they are; and how far they are, where they are half prepared."""
PREPARED_ENDING = ".hba"
"""That a folder of them may have; any other name is as good."""


def format_of(data: str | Path) -> Format:
    """The format of what is there, or would be; a folder where nothing tells another."""
    path = Path(data)
    ending = path.suffix.lower()
    if path.is_dir():
        if any((path / name).is_file() for name in (PREPARED_NAME, PREPARING_NAME)):
            return "prepared"
        is_saved = (path / SPLITS_FILE).is_file() or all((path / name).is_file() for name in SAVED_FILES)
        return "saved" if is_saved else "folder"
    if ending in (*CSV_ENDINGS, *PARQUET_ENDINGS):
        return "table"
    return "npz" if ending == ".npz" else "folder"


def has_columns(data: str | Path) -> bool:
    """Whether images and labels stand in columns that have names."""
    return format_of(data) in ("table", "saved")


def stem_of(data: str | Path) -> str:
    """The name of the folder, or of the file without its ending, as is the name of prepared images."""
    path = Path(data)
    found = format_of(path)
    has_ending = found in ("table", "npz") or (found == "prepared" and path.suffix == PREPARED_ENDING)
    return path.stem if has_ending else path.name
