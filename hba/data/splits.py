"""Splits of a data set by a seed: stratified, with every class in each of them; and the
choice of classes.

The task of the labels says what the strata are: its classes, if an image has one.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np

from hba.data.groups import taken_with_groups
from hba.data.labels import composed
from hba.data.pool import Pool, Source
from hba.errors import DataError
from hba.tasks import task_of
from hba.utils.files import read_text, reason_of
from hba.utils.text import counted

DEFAULT_FRACTION = 0.2
"""Share of the images in the validation split, and in the test split, if no size is
given.
"""
ENDING = ".txt"
COMMENT = re.compile(r"(^|\s)#.*")
"""A # inside a word belongs to a class's name."""


@dataclass(frozen=True)
class Splits:
    """Pools of a source's images, each in the order of its source."""

    available: Pool
    """All training images without the test split."""
    train: Pool
    """A part of the available images."""
    val: Pool
    """A part of the available images, unless the source has its own."""
    test: Callable[[], Pool]
    """Opens the test images: the source's own, if it has some."""


def split(
    source: Source, train_size: int | None, val_size: int | None, seed: int
) -> Splits:
    """Split a source: test first, then validation, then training.

    Splits have the shares of the classes, or are random if images have several labels.
    Groups of images stay in one split. Only the seed decides the test split.

    Args:
        source: The images.
        train_size: Number of training images; None takes the rest.
        val_size: Number of validation images; None takes a fifth.
        seed: Decides which images go into which split.

    Raises:
        DataError: For bad sizes.
    """
    available = source.train
    test = source.test
    val = source.val
    parts = [
        name
        for name, provided in (("train", None), ("val", val), ("test", test))
        if provided is None
    ]
    _check_classes(source, parts)
    if test is None:
        size = source.test_size or _default_size(source, available)
        drawn, available = _take(
            source, available, size, keep=len(parts) - 1, seed=seed, name="test"
        )
    if val is not None:
        val = _take(source, val, val_size, keep=0, seed=seed, name="val")[0]
        remaining = available
    else:
        val_size = val_size or _default_size(source, available)
        val, remaining = _take(
            source, available, val_size, keep=1, seed=seed, name="val"
        )
    return Splits(
        available,
        take_training(source, remaining, train_size, seed),
        val,
        test or (lambda: drawn),
    )


def _check_classes(source: Source, parts: Sequence[str]) -> None:
    """DataError if there are fewer images, or fewer images of a class, than parts."""
    task = task_of(source.train.labels)
    n_strata = task.n_strata(len(source.class_names))
    counts = np.bincount(task.strata(source.train.labels), minlength=n_strata)
    fewest = int(counts.min())
    subject = source.name
    remedy = "add some"
    if n_strata > 1:
        subject = f"the class {source.class_names[counts.argmin()]!r} of {subject}"
        remedy = "add some, or choose classes without it (--classes)"
    if fewest < len(parts):
        needed = (
            f"has {counted(fewest, 'image')}, but needs one each for {', '.join(parts)}"
        )
        raise DataError(f"{subject} {needed}; {remedy}")


def take_training(source: Source, pool: Pool, size: int | None, seed: int) -> Pool:
    """The training images, or `size` of them, stratified."""
    return _take(source, pool, size, keep=0, seed=seed, name="train")[0]


def _default_size(source: Source, pool: Pool) -> int:
    fewest = task_of(pool.labels).n_strata(len(source.class_names))
    return max(fewest, round(DEFAULT_FRACTION * len(pool)))


def _take(
    source: Source, pool: Pool, size: int | None, *, keep: int, seed: int, name: str
) -> tuple[Pool, Pool]:
    """Take some images, at least one of each stratum.

    Args:
        source: For its name in messages.
        pool: The images.
        size: How many to take; None takes all.
        keep: How many of each stratum to leave at least.
        seed: Decides which images are taken.
        name: Of the split, for messages.

    Returns:
        The pool of these images, and the pool of the others.
    """
    if size is None:
        return pool, pool.take(np.arange(0))
    task = task_of(pool.labels)
    strata = task.strata(pool.labels)
    numbers, counts = np.unique(strata, return_counts=True)
    n_strata = len(numbers)
    has_classes = task.n_strata(len(source.class_names)) > 1
    most = len(pool) - keep * n_strata
    if not n_strata <= size <= most:
        of_each = ""
        if n_strata > 1:
            of_each = f" for each {'class' if has_classes else 'stratum of the labels'}"
        fewest = f"{n_strata}, one image{of_each}"
        largest = f"{most}, the number that {source.name} has left for it"
        raise DataError(
            f"{name}_size must lie between {fewest}, and {largest}, got {size}"
        )
    if keep and pool.groups is not None:
        chosen = taken_with_groups(
            strata, pool.groups, size, seed, name, needs_all=has_classes
        )
    else:
        rng = np.random.default_rng(seed)
        shares = _shares(counts, counts - keep, size)
        chosen = np.concatenate(
            [
                rng.permutation(np.flatnonzero(strata == number))[:share]
                for number, share in zip(numbers, shares, strict=True)
            ]
        )
    if task.is_empty(pool.labels[chosen]):
        raise DataError(
            f"no image drawn for {name} has a label: choose a larger split, or another"
            " split seed"
        )
    remaining = np.setdiff1d(np.arange(len(pool)), chosen)
    return pool.take(np.sort(chosen)), pool.take(remaining)


def _shares(counts: np.ndarray, limits: np.ndarray, size: int) -> np.ndarray:
    """Divide `size` among the classes, in proportion to the counts, but at least 1 and
    at most the limit for each.
    """
    proportion = size * counts / counts.sum()
    shares = np.clip(np.floor(proportion).astype(int), 1, limits)
    while (missing := size - shares.sum()) != 0:
        step = 1 if missing > 0 else -1
        movable = (shares < limits) if step > 0 else (shares > 1)
        distance = np.where(movable, step * (proportion - shares), -np.inf)
        shares[distance.argmax()] += step
    return shares


def shipped_class_lists() -> list[str]:
    return sorted(
        file.name.removesuffix(ENDING)
        for file in files("hba.data").iterdir()
        if file.name.endswith(ENDING)
    )


def keep_classes(source: Source, listed_in: str) -> Source:
    """Keep only the classes of a list, renumbered in their old order.

    This holds for the test split too.

    Args:
        source: The images.
        listed_in: The name of a shipped list, or a text file with one class per line:
            its name, or its position, from 0, in the order of the data set's classes
            (for a folder: sorted by name). Names take precedence over positions; empty
            lines and comments after a # are ignored.

    Raises:
        DataError: For other files.
    """
    keep = _read_classes(source, listed_in)
    kept = source.map(lambda pool: pool.keep(keep))
    test_size = source.test_size
    if test_size is not None:
        # The same share of the kept images as of all images.
        test_size = max(
            len(keep), round(test_size * len(kept.train) / len(source.train))
        )
    return replace(
        kept,
        class_names=tuple(source.class_names[number] for number in keep),
        test_size=test_size,
    )


def _read_classes(source: Source, listed_in: str) -> list[int]:
    shipped = shipped_class_lists()
    try:
        if listed_in in shipped:
            content = files("hba.data").joinpath(listed_in + ENDING).read_text("utf-8")
        else:
            content = read_text(Path(listed_in))
    except (OSError, UnicodeDecodeError) as error:
        remedy = f"give a text file or one of: {', '.join(shipped)}"
        raise DataError(
            f"cannot read the list of classes {listed_in} ({reason_of(error)});"
            f" {remedy}"
        ) from None
    by_text = {str(number): number for number in range(len(source.class_names))}
    by_text |= {name: number for number, name in enumerate(source.class_names)}
    lines = [
        composed(line)
        for line in (
            COMMENT.sub("", line).strip(" \t") for line in content.splitlines()
        )
        if line
    ]
    if unknown := [line for line in lines if line not in by_text]:
        allowed = (
            f"names such as {source.class_names[0]!r} and numbers from 0 to"
            f" {len(source.class_names) - 1}"
        )
        raise DataError(
            f"{listed_in} has {unknown[0]!r}, which is no class of {source.name}: they"
            f" have {allowed}"
        )
    keep = sorted({by_text[line] for line in lines})
    if len(keep) < 2:
        raise DataError(f"{listed_in} must list at least two classes of {source.name}")
    return keep
