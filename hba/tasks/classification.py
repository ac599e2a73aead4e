"""One class for each image."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hba.tasks.linear import ridge_classifier
from hba.tasks.mixed_labels import MixedLabels
from hba.tasks.task import ImageTask, ImageTaskName, LinearLayer

SCORE_OF_UNKNOWN = -10.0
"""Output of a linear layer for a class without training images."""


class Classification(ImageTask):
    """One class for each image: labels int64 (N,), outputs logits (N, classes)."""

    name: ClassVar[ImageTaskName] = "classification"

    def has_form(self, labels: Tensor | np.ndarray) -> bool:
        if isinstance(labels, Tensor):
            return labels.ndim == 1 and not labels.is_floating_point()
        return labels.ndim == 1 and labels.dtype.kind != "f"

    def stored(
        self, n_images: int, n_classes: int, side: int
    ) -> tuple[str, tuple[int, ...]]:
        return "int64", (n_images,)

    def loss(self, outputs: Tensor, labels: Tensor | MixedLabels) -> Tensor:
        if isinstance(labels, MixedLabels):
            return super().loss(outputs, labels)
        # A mean inside of PyTorch rounds differently from a mean of losses.
        return F.cross_entropy(outputs, labels)

    def losses_of_labels(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, reduction="none")

    def loss_sum(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return F.cross_entropy(outputs, labels, reduction="sum")

    def statistics(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Which images are answered wrongly, bool (B,)."""
        return outputs.argmax(1) != labels

    def error_of(self, statistics: Tensor) -> Tensor:
        return statistics.float().mean()

    def image_errors(self, statistics: Tensor) -> Tensor:
        return statistics

    def smoothing(self, outputs: Tensor, labels: Tensor) -> Tensor:
        even = -outputs.log_softmax(dim=1).mean(dim=1)
        return even - self.losses_of_labels(outputs, labels)

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(dim=1)

    def n_answers(self, probabilities: Tensor) -> int:
        return 1

    def doubts(self, outputs: Tensor, labels: Tensor) -> Tensor:
        return 1 - self.probabilities(outputs).gather(1, labels[:, None])[:, 0]

    def guessing_doubts(self, labels: Tensor) -> Tensor:
        shares = F.one_hot(labels).float().mean(dim=0)
        return 1 - shares[labels]

    def guessing_error(self, labels: Tensor) -> Tensor:
        return 1 - torch.bincount(labels).max() / len(labels)

    def members(self, labels: Tensor) -> Tensor:
        return F.one_hot(labels).T

    def counts(self, labels: np.ndarray, n_classes: int) -> np.ndarray:
        return np.bincount(labels, minlength=n_classes)

    def present(self, labels: Tensor) -> list[int]:
        classes: list[int] = labels.unique().tolist()
        return classes

    def fits(self, labels: Tensor, n_classes: int) -> bool:
        classes = self.present(labels)
        return bool(classes) and classes[0] >= 0 and classes[-1] < n_classes

    def strata(self, labels: np.ndarray) -> np.ndarray:
        return labels

    def n_strata(self, n_classes: int) -> int:
        return n_classes

    def keep(
        self, labels: np.ndarray, classes: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        places = np.flatnonzero(np.isin(labels, classes))
        return places, np.searchsorted(classes, labels[places])

    def fit_linear(
        self, features: np.ndarray, labels: Tensor, n_classes: int
    ) -> LinearLayer:
        layer = ridge_classifier(features, labels)
        known = torch.from_numpy(layer.classes_)

        def outputs_of(features: np.ndarray) -> Tensor:
            decisions = torch.from_numpy(layer.decision_function(features)).float()
            if decisions.ndim == 1:
                # Of two classes, or of one, scikit-learn gives the score of the last.
                both = torch.stack([-decisions, decisions], dim=1)
                decisions = both[:, -len(known) :]
            outputs = torch.full((len(decisions), n_classes), SCORE_OF_UNKNOWN)
            outputs[:, known] = decisions
            return outputs

        return outputs_of
