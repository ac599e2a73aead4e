"""Which classes a network takes for which, and how often it is right in each."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

UNBALANCED = 2
"""Classes are unbalanced where the largest has at least so many times the images of the smallest."""

Counts = Mapping[int, Mapping[int, int]]
"""Images by class and then by answer, both as labels; what no image has is left out."""


@dataclass(frozen=True)
class Confusion:
    """A network's answers on a split. cells: (label, answer, images) in ascending order; what no image has is left out,
    so that there are no more cells than images, however many classes there are.
    """

    n_classes: int
    cells: tuple[tuple[int, int, int], ...]

    def __repr__(self) -> str:
        return f"Confusion({self.n_classes} classes, {sum(images for _, _, images in self.cells)} images)"

    @staticmethod
    def of(counts: Tensor) -> "Confusion":
        """counts (K, K): images by label and answer."""
        labels, answers = counts.nonzero(as_tuple=True)
        cells = zip(labels.tolist(), answers.tolist(), counts[labels, answers].tolist(), strict=True)
        return Confusion(len(counts), tuple(cells))

    @staticmethod
    def from_counts(n_classes: int, counts: Counts) -> "Confusion":
        """The reverse of `counts`; ValueError for a label that is no class, and for what counts no images."""
        cells = sorted((label, answer, images) for label, row in counts.items() for answer, images in row.items())
        if any(not 0 <= label < n_classes for cell in cells for label in cell[:2]):
            raise ValueError(f"a confusion matrix must have labels of 0 to {n_classes - 1}")
        if not cells or any(images < 1 for _, _, images in cells):
            raise ValueError("a confusion matrix must count images, one or more in each of its cells")
        return Confusion(n_classes, tuple(cells))

    def counts(self) -> Counts:
        found: dict[int, dict[int, int]] = {}
        for label, answer, images in self.cells:
            found.setdefault(label, {})[answer] = images
        return found

    def matrix(self) -> np.ndarray:
        """int64 (K, K): images of the class of a row that were taken for the class of a column."""
        matrix = np.zeros((self.n_classes, self.n_classes), dtype=np.int64)
        for label, answer, images in self.cells:
            matrix[label, answer] = images
        return matrix

    @property
    def balanced_accuracy_percent(self) -> float:
        """The mean recall, in per cent, over the classes that have an image, of which there must be one."""
        matrix = self.matrix()
        images = matrix.sum(1)
        present = images > 0
        return float(100 * (matrix.diagonal()[present] / images[present]).mean())

    @property
    def is_unbalanced(self) -> bool:
        """Whether balanced accuracy can tell something else than the error, by UNBALANCED; classes without an image do
        not count.
        """
        images = self.matrix().sum(1)
        return bool(images.max() >= UNBALANCED * images[images > 0].min())
