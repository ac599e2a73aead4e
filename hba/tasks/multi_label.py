"""Any number of labels for each image."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hba.tasks.linear import ridge_classifier
from hba.tasks.task import ImageTask, ImageTaskName, LinearLayer
from hba.utils.devices import exact_device

LIKELY = 0.5
"""Probability from which on a label is an answer."""


class MultiLabel(ImageTask):
    """Any number of labels for each image.

    Labels are bool (N, classes), and outputs logits (N, classes), each of which tells
    how likely one label is.
    """

    name: ClassVar[ImageTaskName] = "multi-label"
    error: ClassVar[str | None] = (
        "100 minus the mean average precision over the classes that have a positive"
    )
    note: ClassVar[str | None] = (
        f"images have several labels: loss is binary cross entropy, error is {error}"
    )
    noun: ClassVar[str] = "labels"
    has_one_answer: ClassVar[bool] = False

    def has_form(self, labels: Tensor | np.ndarray) -> bool:
        return labels.ndim == 2

    def stored(
        self, n_images: int, n_classes: int, side: int
    ) -> tuple[str, tuple[int, ...]]:
        return "bool", (n_images, n_classes)

    def losses_of_labels(self, outputs: Tensor, labels: Tensor) -> Tensor:
        targets = labels.to(outputs)
        losses = F.binary_cross_entropy_with_logits(outputs, targets, reduction="none")
        return losses.mean(dim=1)

    def statistics(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Logits and labels (B, 2, classes)."""
        return torch.stack([outputs, labels.to(outputs)], dim=1)

    def error_of(self, statistics: Tensor) -> Tensor:
        logits, labels = statistics.unbind(1)
        error = 1 - mean_average_precision(logits, labels.bool())
        return error.float().to(statistics.device)

    def smoothing(self, outputs: Tensor, labels: Tensor) -> Tensor:
        even = self.losses_of_labels(outputs, torch.full_like(outputs, 0.5))
        return even - self.losses_of_labels(outputs, labels)

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.sigmoid()

    def n_answers(self, probabilities: Tensor) -> int:
        return int((probabilities >= LIKELY).sum())

    def doubts(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return (self.probabilities(outputs) - labels.float()).abs().mean(dim=1)

    def guessing_doubts(self, labels: Tensor) -> Tensor:
        shares = labels.float().mean(dim=0)
        return (labels.float() - shares).abs().mean(dim=1)

    def guessing_error(self, labels: Tensor) -> Tensor:
        return 1 - labels.float().mean()

    def members(self, labels: Tensor) -> Tensor:
        return labels.T

    def counts(self, labels: np.ndarray, n_classes: int) -> np.ndarray:
        counts: np.ndarray = labels.sum(axis=0)
        return counts

    def present(self, labels: Tensor) -> list[int]:
        classes: list[int] = labels.any(dim=0).nonzero().flatten().tolist()
        return classes

    def fits(self, labels: Tensor, n_classes: int) -> bool:
        return labels.shape[1] == n_classes and bool(labels.any())

    def strata(self, labels: np.ndarray) -> np.ndarray:
        # No split can have the shares of all labels at once.
        return np.zeros(len(labels), dtype=np.int64)

    def n_strata(self, n_classes: int) -> int:
        return 1

    def keep(
        self, labels: np.ndarray, classes: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        return np.arange(len(labels)), labels[:, list(classes)]

    def is_empty(self, labels: np.ndarray) -> bool:
        return not labels.any()

    def fit_linear(
        self, features: np.ndarray, labels: Tensor, n_classes: int
    ) -> LinearLayer:
        layer = ridge_classifier(features, labels)

        def outputs_of(features: np.ndarray) -> Tensor:
            return torch.from_numpy(layer.decision_function(features)).float()

        return outputs_of


def mean_average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean average precision over the classes that have a positive, a scalar double
    on the exact_device.

    scores (N, classes), labels bool (N, classes). The average precision of a class is
    the mean, over its positives, of the precision among all images that score at least
    as high. So equal scores count together, as in scikit-learn's
    average_precision_score. If no class has a positive, the result is 1.
    """
    exact = exact_device(scores.device)
    scores = scores.to(exact)
    labels = labels.to(exact)
    order = scores.T.contiguous().argsort(dim=1, descending=True)
    descending = -scores.T.gather(1, order)
    is_positive = labels.T.gather(1, order).double()
    as_high = torch.searchsorted(
        descending.contiguous(), descending.contiguous(), right=True
    ).clamp(min=1)
    precision = is_positive.cumsum(dim=1).gather(1, as_high - 1) / as_high
    n_positive = is_positive.sum(dim=1)
    average = (precision * is_positive).sum(dim=1) / n_positive.clamp(min=1)
    n_classes = (n_positive > 0).sum()
    return torch.where(n_classes > 0, average.sum() / n_classes.clamp(min=1), 1.0)
