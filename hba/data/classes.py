"""A dataset or folder with only some of its classes."""

import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from hba.data.images import Pool, Source
from hba.errors import DataError
from hba.utils.files import read_text

ENDING = ".txt"
COMMENT = re.compile(r"(^|\s)#.*")
"""A # inside a word belongs to a class's name."""


def shipped_class_lists() -> list[str]:
    """Names of the lists of classes that ship with the package."""
    return sorted(file.name.removesuffix(ENDING) for file in files("hba.data").iterdir() if file.name.endswith(ENDING))


def keep_classes(source: Source, listed_in: str) -> Source:
    """The source with only the classes of a list, test images too, renumbered in their old order.

    listed_in: a shipped list's name, or a text file with a class in each line: its name, or its position, from 0, in
    the order of the dataset's classes (for a folder: sorted by name). A name goes before a position; empty lines and
    comments after a # do not count. DataError for what is not such a list.
    """
    keep = sorted(_numbers(_lines(listed_in), source, listed_in))
    test = source.test

    def kept(pool: Pool, part: str) -> Pool:
        restricted = pool.restricted(keep)
        if not len(restricted.labels):
            raise DataError(f"{listed_in}: {source.name} has no {part} images of these classes; add others")
        return restricted

    return replace(
        source,
        class_names=tuple(source.class_names[number] for number in keep),
        train=source.train.restricted(keep),
        val=None if source.val is None else kept(source.val, "validation"),
        test=None if test is None else lambda: kept(test(), "test"),
        test_size=None if source.test_size is None else _share(source, keep),
    )


def _share(source: Source, keep: list[int]) -> int:
    """As large a part of the classes' images for testing as of all images."""
    n_all, n_kept = len(source.train.labels), len(source.train.restricted(keep).labels)
    return max(len(keep), round((source.test_size or 0) * n_kept / n_all))


def _lines(listed_in: str) -> list[str]:
    if listed_in in shipped_class_lists():
        text = files("hba.data").joinpath(listed_in + ENDING).read_text(encoding="utf-8")
    else:
        try:
            text = read_text(Path(listed_in))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
            raise DataError(
                f"cannot read the list of classes {listed_in} ({reason}); give a text file or one of: "
                f"{', '.join(shipped_class_lists())}"
            ) from None
    lines = (COMMENT.sub("", line).strip() for line in text.splitlines())
    return [line for line in lines if line]


def _numbers(lines: list[str], source: Source, listed_in: str) -> set[int]:
    by_name = {name: number for number, name in enumerate(source.class_names)}
    lines_of: dict[int, str] = {}
    for line in lines:
        number = by_name.get(line, int(line) if line.isascii() and line.isdigit() else -1)
        if not 0 <= number < len(by_name):
            raise DataError(
                f"{listed_in}: {source.name} has no class {line!r}; give names such as {source.class_names[0]!r}, or "
                f"numbers from 0 to {len(by_name) - 1}"
            )
        if number in lines_of:
            raise DataError(
                f"{listed_in}: the class {source.class_names[number]!r} of {source.name} is listed twice, as "
                f"{lines_of[number]!r} and {line!r}; remove one of them"
            )
        lines_of[number] = line
    if len(lines_of) < 2:
        raise DataError(f"{listed_in}: there must be at least two classes, got {len(lines_of)}; add the others")
    return set(lines_of)
