"""Splits of a dataset, decided by a seed: stratified, with every class in each of them.

Images of several labels are drawn at random instead: no split can have the shares of all classes at once.
"""

from dataclasses import dataclass

import numpy as np

from hba.data.images import Source
from hba.data.labels import is_multi_label
from hba.errors import DataError
from hba.utils.text import counted

DEFAULT_FRACTION = 0.2
"""Share of the images that validation, and likewise test, gets where no size is given."""


@dataclass(frozen=True)
class Splits:
    """Sorted indices into a source's pools. test is None where the source has a test pool.

    available: all of the training pool that is not test. train is a part of it, and so is val unless the source has
    a validation pool.
    """

    available: np.ndarray
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray | None


def split(source: Source, train_size: int | None, val_size: int | None, seed: int) -> Splits:
    """Split by class shares, or at random where images have several labels: test first, then validation, then training.

    None: a fifth of the images for validation, all the rest for training.

    The test split depends on the seed alone, not on the other sizes. Raises DataError for sizes that do not fit.
    """
    labels = source.train.labels
    available, test = np.arange(len(labels)), None
    named_parts = ["training", *(["validation"] if source.val is None else [])]
    _check_classes(source, labels, named_parts + (["test"] if source.test is None else []))
    if source.test is None:
        test_size = source.test_size or _default_size(source, labels)
        test = _take(source, labels, available, test_size, keep=len(named_parts), seed=seed, part="test")
        available = np.setdiff1d(available, test)
    if source.val is None:
        rest = available
        val_size = val_size or _default_size(source, labels[available])
        _check_sum(source, train_size, val_size, len(available))
        val = _take(source, labels, available, val_size, keep=1, seed=seed, part="validation")
        rest = np.setdiff1d(available, val)
    else:
        rest = available
        val_labels = source.val.labels
        val = _take(source, val_labels, np.arange(len(val_labels)), val_size, keep=0, seed=seed, part="validation")
    train = take_training(source, rest, train_size, seed)
    return Splits(available, train, val, test)


def take_training(source: Source, indices: np.ndarray, size: int | None, seed: int) -> np.ndarray:
    """All of the indices into the training pool, or a part of `size` of them, stratified for single labels."""
    return _take(source, source.train.labels, indices, size, keep=0, seed=seed, part="training")


def _default_size(source: Source, labels: np.ndarray) -> int:
    fewest = 1 if is_multi_label(labels) else len(source.class_names)
    return max(fewest, round(DEFAULT_FRACTION * len(labels)))


def _take(
    source: Source, all_labels: np.ndarray, indices: np.ndarray, size: int | None, *, keep: int, seed: int, part: str
) -> np.ndarray:
    """`size` of the indices, at least one of each class, leaving at least `keep` of each class; None takes all."""
    if size is None:
        return indices
    labels = all_labels[indices]
    if is_multi_label(labels):
        return _take_at_random(source, labels, indices, size, keep=keep, seed=seed, part=part)
    n_classes = len(np.unique(labels))
    most = len(indices) - keep * n_classes
    if not n_classes <= size <= most:
        raise DataError(
            f"the {part} size must lie between {n_classes}, one image for each class, and {most}, which is what "
            f"{source.name} has for it, got {size}"
        )
    rng = np.random.default_rng(seed)
    classes, counts = np.unique(labels, return_counts=True)
    shares = _shares(counts, counts - keep, size)
    chosen = [
        rng.permutation(np.flatnonzero(labels == label))[:share] for label, share in zip(classes, shares, strict=True)
    ]
    return np.sort(indices[np.concatenate(chosen)])


def _take_at_random(
    source: Source, labels: np.ndarray, indices: np.ndarray, size: int, *, keep: int, seed: int, part: str
) -> np.ndarray:
    """`size` of the indices, leaving at least `keep`. labels (n, classes): theirs."""
    most = len(indices) - keep
    if not 1 <= size <= most:
        raise DataError(
            f"the {part} size must lie between 1 and {most}, which is what {source.name} has for it, got {size}"
        )
    chosen = np.random.default_rng(seed).permutation(len(indices))[:size]
    if not labels[chosen].any():
        raise DataError(
            f"none of the {counted(size, 'image')} drawn for {part} has a label: choose a larger {part} split, another "
            "split seed, or make the splits yourself"
        )
    return np.sort(indices[chosen])


def _shares(counts: np.ndarray, limits: np.ndarray, size: int) -> np.ndarray:
    """How many of each class make up `size`: in proportion to the counts, but at least 1 and at most the limit.

    One image at a time goes to, or comes from, the class that is farthest below, or above, its proportion.
    """
    proportion = size * counts / counts.sum()
    shares = np.clip(np.floor(proportion).astype(int), 1, limits)
    while (missing := size - shares.sum()) != 0:
        step = 1 if missing > 0 else -1
        movable = (shares < limits) if step > 0 else (shares > 1)
        distance = np.where(movable, step * (proportion - shares), -np.inf)
        shares[distance.argmax()] += step
    return shares


def _check_classes(source: Source, labels: np.ndarray, parts: list[str]) -> None:
    if is_multi_label(labels):
        if len(labels) < len(parts):
            raise DataError(
                f"{source.name} has {counted(len(labels), 'image')}, but needs at least {len(parts)}, one each for "
                f"{', '.join(parts)}"
            )
        return
    counts = np.bincount(labels, minlength=len(source.class_names))
    smallest = int(counts.argmin())
    if counts[smallest] < len(parts):
        raise DataError(
            f"the class {source.class_names[smallest]!r} of {source.name} has {counted(counts[smallest], 'image')}, "
            f"but needs at least {len(parts)}, one each for {', '.join(parts)}; add some, or choose "
            "classes without it"
        )


def _check_sum(source: Source, train_size: int | None, val_size: int, n_available: int) -> None:
    if (train_size or 0) + val_size > n_available:
        raise DataError(
            f"training and validation sizes must add up to at most the {n_available} images that {source.name} has "
            f"for them, got {train_size or 0} + {val_size}"
        )
