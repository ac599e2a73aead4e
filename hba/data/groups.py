"""Groups of images that belong together, such as those of a patient or the frames of a
video, and parts of the images that keep them together.
"""

import os
import re
import warnings

import numpy as np
import torch
from torch import Tensor

from hba.data.pool import FileItems, Pool
from hba.errors import DataError, SettingsError
from hba.utils.text import first_of


def groups_by_name(pool: Pool, pattern: str) -> np.ndarray:
    """The number of each image's group, int64 (N,).

    Args:
        pool: The images.
        pattern: A regular expression that is searched in the path of each image below
            the folder of the data. Images with the same first group of the expression,
            or without one the same match, are in one group.

    Raises:
        SettingsError: For images without a path.
        DataError: For paths in which it is not found.
    """
    items = pool.items
    if not isinstance(items, FileItems) or items.encoded is not None:
        raise SettingsError(
            "group needs image files, whose paths tell the groups; omit it"
        )
    paths = [os.fsdecode(items.names[number]) for number in pool.numbers]
    found = [re.search(pattern, path) for path in paths]
    missing = [path for path, match in zip(paths, found, strict=True) if match is None]
    if missing:
        raise DataError(
            f"group {pattern!r} must be found in the path of every image, but is not in"
            f" {first_of(missing)}"
        )
    names = [
        next((part for part in match.groups() if part is not None), match[0])
        for match in found
        if match is not None
    ]
    return np.unique(names, return_inverse=True)[1].astype(np.int64)


def folds_of(
    strata: np.ndarray, groups: np.ndarray | None, n_folds: int, seed: int
) -> list[np.ndarray]:
    """Divide images into parts of about equal size and about the same share of each
    stratum, by scikit-learn.

    Args:
        strata: The stratum of each image (N,).
        groups: The group of each image (N,), which stays in one part; None for none.
        n_folds: How many parts, at most.
        seed: Decides the parts.

    Returns:
        The indices of each part.
    """
    from sklearn.model_selection import KFold, StratifiedGroupKFold, StratifiedKFold

    counts = np.bincount(strata)
    largest = int(counts.max())
    n_folds = max(2, min(n_folds, largest))
    with warnings.catch_warnings():
        # Classes may have fewer images than there are parts.
        warnings.simplefilter("ignore", UserWarning)
        if groups is not None:
            n_folds = min(n_folds, len(np.unique(groups)))
            splitter = StratifiedGroupKFold(n_folds, shuffle=True, random_state=seed)
        elif len(counts) == 1 or largest < 2:
            splitter = KFold(n_folds, shuffle=True, random_state=seed)
        else:
            splitter = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        return [part for _, part in splitter.split(strata, strata, groups)]


def means_of_groups(values: Tensor, groups: Tensor | None) -> Tensor:
    """The means over the images of each group, which are independent, while images of
    one group are alike. NaN has no part in a mean.

    Args:
        values: Of each image (N, ...).
        groups: The group of each image (N,); None if each is its own.

    Returns:
        In the order of the numbers of the groups, (groups, ...).
    """
    if groups is None:
        return values
    places = groups.to(values.device)
    return torch.stack(
        [values[places == group].nanmean(dim=0) for group in places.unique()]
    )


def taken_with_groups(
    strata: np.ndarray,
    groups: np.ndarray,
    size: int,
    seed: int,
    name: str,
    *,
    needs_all: bool,
) -> np.ndarray:
    """Take about `size` images, of whole groups.

    Args:
        strata: The stratum of each image (N,).
        groups: The group of each image (N,).
        size: How many to take.
        seed: Decides which images are taken.
        name: Of the split, for messages.
        needs_all: Whether both parts must have images of every stratum.

    Returns:
        Their indices, ascending.

    Raises:
        DataError: If there are too few groups, or if a stratum that both parts need is
            not in both.
    """
    n_groups = len(np.unique(groups))
    if n_groups < 2:
        raise DataError(
            f"all images for {name} and others are in one group; choose another --group"
        )
    n_images = len(strata)
    is_most = 2 * size > n_images
    smaller = n_images - size if is_most else size
    part = folds_of(strata, groups, max(2, round(n_images / max(1, smaller))), seed)[0]
    is_taken = np.full(n_images, is_most)
    is_taken[part] = not is_most
    if needs_all and {*strata[is_taken]} != {*strata[~is_taken]}:
        raise DataError(
            f"the {n_groups} groups cannot be divided so that {name} and the others"
            " have images of every class; choose another --split-seed, or another"
            " --group"
        )
    return np.flatnonzero(is_taken)
