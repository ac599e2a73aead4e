"""What to call data when a person reads it: in titles, and as the folder of a run."""

from pathlib import Path

from hba.data.formats import stem_of
from hba.data.layout import split_called


def shown_name(data: str) -> str:
    """The last part of a path, and the one before it where the last is only a split: `animals`, `animals/train`."""
    path = Path(data)
    return "/".join(filter(None, (_above_a_split(path), path.name)))


def run_name(data: str) -> str:
    """The same as a part of a path, without the ending of a file: `animals`, `animals-train`."""
    return "-".join(filter(None, (_above_a_split(Path(data)), stem_of(data))))


def _above_a_split(path: Path) -> str:
    """The name of the folder around train, test_images or val.csv; empty for other names, which say enough."""
    return path.parent.name if split_called(stem_of(path)) else ""
