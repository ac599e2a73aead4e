"""The interface between labels and everything that trains, measures or compares."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from hba.tasks.mixed_labels import MixedLabels, mean_over_labels

Outputs = Any
"""What a network returns: a tensor, such as logits (B, classes), or a named tuple of
tensors.
"""
ImageTaskName = Literal["classification", "multi-label", "regression", "segmentation"]
"""Names of the tasks on images in files."""
LinearLayer = Callable[[np.ndarray], Tensor]
"""Maps features (N, n) to outputs (N, classes)."""


class Task(ABC):
    """What the labels of a training mean: its loss and its error. It has no state, so
    one instance serves all data.

    Labels are those of a batch or of a data set, with one entry for each example.
    """

    name: ClassVar[str]
    """Its name in files."""
    error: ClassVar[str | None] = None
    """Definition of the error in per cent; None for the share of wrong answers."""
    note: ClassVar[str | None] = None
    """A sentence for the user that defines loss and error; None if they need none."""
    evaluate_command: ClassVar[str] = "evaluate"
    """The command that evaluates a schedule."""
    repeat_command: ClassVar[str | None] = "search"
    """The command that repeats a search from its config.json; None if there is none."""

    def loss(self, outputs: Outputs, labels: Tensor | MixedLabels) -> Tensor:
        """The mean loss () in nats."""
        return self.losses(outputs, labels).mean()

    def losses(self, outputs: Outputs, labels: Tensor | MixedLabels) -> Tensor:
        """The loss of each example (B,) in nats."""
        return mean_over_labels(partial(self.losses_of_labels, outputs), labels)

    def error_share(self, outputs: Outputs, labels: Tensor | MixedLabels) -> Tensor:
        """The error () in [0, 1]; of mixed labels, that for the labels of the examples
        themselves.
        """
        unmixed = labels.labels if isinstance(labels, MixedLabels) else labels
        return self.error_of_labels(outputs, unmixed)

    @abstractmethod
    def losses_of_labels(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The loss of each example (B,) in nats, for labels that are not mixed."""

    @abstractmethod
    def error_of_labels(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The error () in [0, 1], for labels that are not mixed."""


class ImageTask(Task):
    """What the labels of images mean, and how they are stored, split and shown."""

    name: ClassVar[ImageTaskName]
    noun: ClassVar[str] = "classes"
    """What the names of the classes are called in sentences."""
    has_one_answer: ClassVar[bool] = True
    """Whether the network answers with one class, so that there is a confusion matrix.
    """

    has_masks: ClassVar[bool] = False
    """Whether labels are masks, which move with the pixels of their images."""
    has_numbers: ClassVar[bool] = False
    """Whether labels are numbers with a scale, instead of classes."""
    can_mix: ClassVar[bool] = True
    """Whether images can be mixed with their labels."""
    can_calibrate: ClassVar[bool] = True
    """Whether a factor of all outputs changes how sure an answer is, and not what it
    is.
    """
    has_linear_layer: ClassVar[bool] = True
    """Whether a linear layer on features of images can answer."""

    @abstractmethod
    def has_form(self, labels: Tensor | np.ndarray) -> bool:
        """Whether labels have the number of dimensions of this task."""

    @abstractmethod
    def stored(
        self, n_images: int, n_classes: int, side: int
    ) -> tuple[str, tuple[int, ...]]:
        """The data type and the shape of labels in a file.

        Args:
            n_images: Number of images.
            n_classes: Number of classes.
            side: Of the images, in pixels.
        """

    @abstractmethod
    def smoothing(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The loss of even targets minus that of the labels, for each image (B,)."""

    def output_shape(self, n_images: int, n_classes: int, side: int) -> tuple[int, ...]:
        """The shape of what a network returns.

        Args:
            n_images: Number of images.
            n_classes: Number of classes.
            side: Of the images, in pixels.
        """
        return n_images, n_classes

    def thinned(self, values: Tensor) -> Tensor:
        """Outputs or labels of fewer places, if an image has many of them. Thinned
        again, they stay the same.
        """
        return values

    # Measuring

    def loss_sum(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The sum () of the losses in nats."""
        return self.losses(outputs, labels).sum()

    def error_of_labels(self, outputs: Outputs, labels: Tensor) -> Tensor:
        return self.error_of(self.statistics(outputs, labels))

    @abstractmethod
    def statistics(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """All that the error depends on, of each image (B, ...). Those of a data set
        are the concatenation of those of its batches.
        """

    @abstractmethod
    def error_of(self, statistics: Tensor) -> Tensor:
        """The error () in [0, 1] of images with these statistics."""

    def image_errors(self, statistics: Tensor) -> Tensor | None:
        """The part of each image (N,) in the error, which is their mean; None if there
        is no such part.
        """
        return None

    def class_errors(self, statistics: Tensor) -> Tensor | None:
        """The error of each class (classes,) in [0, 1], NaN without any image of it;
        None if the error is not a mean over classes.
        """
        return None

    @abstractmethod
    def probabilities(self, outputs: Outputs) -> Tensor:
        """The probability of each class, (N, classes); of numbers, the answers."""

    @abstractmethod
    def n_answers(self, probabilities: Tensor) -> int:
        """How many of the likeliest classes of one image, (classes,), are answers."""

    # Symmetries: how much a network has learned, and what a move of images costs

    @abstractmethod
    def doubts(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The distance of probabilities and labels of each image (N,), in [0, 1]; of
        numbers, of answers and labels.
        """

    def class_doubts(self, outputs: Outputs, labels: Tensor) -> Tensor:
        """The doubt of each image about each of its classes, (N, classes), NaN for
        other classes.
        """
        return self._of_members(self.doubts(outputs, labels), labels)

    def _of_members(self, doubts: Tensor, labels: Tensor) -> Tensor:
        """Doubts (N,) about images as doubts about their classes, (N, classes)."""
        is_member = self.members(labels).T.bool()
        return torch.where(is_member, doubts[:, None], torch.nan)

    @abstractmethod
    def guessing_doubts(self, labels: Tensor) -> Tensor:
        """The doubts (N,) of a network that knows only how common each class is."""

    def guessing_class_doubts(self, labels: Tensor) -> Tensor:
        """The class_doubts of such a network, (N, classes), without the last classes if
        no label has them.
        """
        return self._of_members(self.guessing_doubts(labels), labels)

    @abstractmethod
    def guessing_error(self, labels: Tensor) -> Tensor:
        """The error () in [0, 1] of an answer that is the same for all images."""

    @abstractmethod
    def members(self, labels: Tensor) -> Tensor:
        """Which images belong to each class, (classes, N)."""

    # Data

    @abstractmethod
    def counts(self, labels: np.ndarray, n_classes: int) -> np.ndarray:
        """The number of images of each class, (classes,)."""

    @abstractmethod
    def present(self, labels: Tensor) -> list[int]:
        """The classes that have images, ascending."""

    @abstractmethod
    def fits(self, labels: Tensor, n_classes: int) -> bool:
        """Whether labels can be those of so many classes."""

    @abstractmethod
    def strata(self, labels: np.ndarray) -> np.ndarray:
        """The stratum of each image, int64 (N,): every split has images of each."""

    @abstractmethod
    def n_strata(self, n_classes: int) -> int:
        """The number of strata of data with so many classes."""

    @abstractmethod
    def keep(
        self, labels: np.ndarray, classes: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        """The images that remain if only these classes do, and their new labels.

        Args:
            labels: Labels of all images.
            classes: Numbers of the classes that remain, ascending.

        Returns:
            Indices of the images, and their labels, renumbered from 0.
        """

    def is_empty(self, labels: np.ndarray) -> bool:
        """Whether no image has any label, so that nothing can be learned."""
        return False

    # A linear layer on features, which shows what pretrained weights know

    def fit_linear(
        self, features: np.ndarray, labels: Tensor, n_classes: int
    ) -> LinearLayer:
        """Fit a linear layer with standardized features and a penalty that it chooses.

        Args:
            features: Features of images (N, n).
            labels: Their labels.
            n_classes: Number of classes, of which some may have no image.
        """
        raise NotImplementedError
