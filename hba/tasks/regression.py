"""A number for each image."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hba.tasks.task import ImageTask, ImageTaskName, LinearLayer

N_BINS = 5
"""The most strata of the numbers of a data set."""
FEWEST_OF_BIN = 10
"""The fewest images of a stratum."""
PENALTIES = tuple(10.0**power for power in range(-1, 6))
"""Penalties of the squared weights of a linear layer; scikit-learn chooses one."""


class Regression(ImageTask):
    """A number for each image: labels float32 (N,), outputs (N, 1).

    Labels are standardized: the mean of the training numbers is subtracted, and the
    result divided by their standard deviation (`Scale` in hba/data/images.py). So loss
    and error have no unit.
    """

    name: ClassVar[ImageTaskName] = "regression"
    error: ClassVar[str | None] = (
        "the mean absolute error in per cent of the standard deviation of the numbers"
    )
    note: ClassVar[str | None] = (
        f"images have numbers: loss is their squared error, error is {error}"
    )
    noun: ClassVar[str] = "numbers"
    has_one_answer: ClassVar[bool] = False
    has_numbers: ClassVar[bool] = True
    can_mix: ClassVar[bool] = False
    can_calibrate: ClassVar[bool] = False

    def has_form(self, labels: Tensor | np.ndarray) -> bool:
        if isinstance(labels, Tensor):
            return labels.ndim == 1 and labels.is_floating_point()
        return labels.ndim == 1 and labels.dtype.kind == "f"

    def stored(
        self, n_images: int, n_classes: int, side: int
    ) -> tuple[str, tuple[int, ...]]:
        return "float32", (n_images,)

    def losses_of_labels(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (outputs[:, 0] - labels).square()

    def statistics(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The absolute errors (B,)."""
        return (outputs[:, 0] - labels).abs().detach()

    def error_of(self, statistics: Tensor) -> Tensor:
        return statistics.mean()

    def image_errors(self, statistics: Tensor) -> Tensor:
        return statistics

    def smoothing(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Even targets are the mean of the numbers, 0."""
        even = self.losses_of_labels(outputs, torch.zeros_like(labels))
        return even - self.losses_of_labels(outputs, labels)

    def probabilities(self, outputs: Tensor) -> Tensor:
        """The answers themselves, (N, 1)."""
        return outputs

    def n_answers(self, probabilities: Tensor) -> int:
        return 1

    def doubts(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The absolute errors, which have no largest value."""
        return self.statistics(outputs, labels)

    def guessing_doubts(self, labels: Tensor) -> Tensor:
        return (labels - labels.median()).abs()

    def guessing_error(self, labels: Tensor) -> Tensor:
        return self.guessing_doubts(labels).mean()

    def members(self, labels: Tensor) -> Tensor:
        return torch.ones_like(labels)[None]

    def counts(self, labels: np.ndarray, n_classes: int) -> np.ndarray:
        return np.array([len(labels)])

    def present(self, labels: Tensor) -> list[int]:
        return [0] if len(labels) else []

    def fits(self, labels: Tensor, n_classes: int) -> bool:
        return n_classes == 1 and len(labels) > 0

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """The bin of each number: from the smallest on, a bin has a N_BINS-th of the
        images or more, because equal numbers are in one bin.
        """
        _, places, counts = np.unique(labels, return_inverse=True, return_counts=True)
        fewest = max(FEWEST_OF_BIN, math.ceil(len(labels) / N_BINS))
        bins = []
        number = size = 0
        for count in counts.tolist():
            bins.append(number)
            size += count
            if size >= fewest:
                number += 1
                size = 0
        # The last bin may be too small.
        last = max(0, number - 1)
        strata: np.ndarray = np.minimum(bins, last)[places].astype(np.int64)
        return strata

    def n_strata(self, n_classes: int) -> int:
        return 1

    def keep(
        self, labels: np.ndarray, classes: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        raise NotImplementedError

    def fit_linear(
        self, features: np.ndarray, labels: Tensor, n_classes: int
    ) -> LinearLayer:
        """Ridge regression of scikit-learn."""
        from sklearn.linear_model import RidgeCV
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        layer = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
        layer.fit(features, labels.cpu().numpy())

        def outputs_of(features: np.ndarray) -> Tensor:
            return torch.from_numpy(layer.predict(features)).float()[:, None]

        return outputs_of
