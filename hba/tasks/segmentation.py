"""A class for each pixel."""

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from hba.tasks.task import ImageTask, ImageTaskName
from hba.utils.devices import exact_device

IGNORED = 255
"""Value of pixels in masks that have no class: they have no loss and no error."""
THINNED_SIDE = 32
"""Largest side of thinned masks."""
FEWEST_OF_STRATUM = 10
"""A class that is the rarest of fewer images is no stratum of its own."""


class Segmentation(ImageTask):
    """A class for each pixel: labels uint8 (N, H, W), outputs logits (N, classes, H,
    W).
    """

    name: ClassVar[ImageTaskName] = "segmentation"
    error: ClassVar[str | None] = (
        "100 minus the mean over the classes of their intersection over union, which is"
        " that of the pixels of all images"
    )
    note: ClassVar[str | None] = (
        f"images have masks: loss is cross entropy plus Dice, error is {error}"
    )
    has_one_answer: ClassVar[bool] = False
    has_masks: ClassVar[bool] = True
    can_mix: ClassVar[bool] = False
    has_linear_layer: ClassVar[bool] = False

    def has_form(self, labels: Tensor | np.ndarray) -> bool:
        return labels.ndim == 3

    def stored(
        self, n_images: int, n_classes: int, side: int
    ) -> tuple[str, tuple[int, ...]]:
        return "uint8", (n_images, side, side)

    def output_shape(self, n_images: int, n_classes: int, side: int) -> tuple[int, ...]:
        return n_images, n_classes, side, side

    def thinned(self, values: Tensor) -> Tensor:
        """Every n-th row and column, at most THINNED_SIDE of each."""
        step = math.ceil(values.shape[-1] / THINNED_SIDE)
        return values[..., ::step, ::step]

    def losses_of_labels(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """Cross entropy, a mean over the pixels of an image, plus Dice (B,)."""
        return _cross_entropies(outputs, labels) + dice_losses(outputs, labels)

    def statistics(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The numbers of pixels in the intersection and in the union of labels and
        answers, for each class, int64 (B, classes, 2).
        """
        n_images, n_classes = outputs.shape[:2]
        pairs = labels.long() * n_classes + outputs.argmax(1)
        # The last number is that of ignored pixels.
        pairs = pairs.where(labels != IGNORED, n_classes**2).flatten(1)
        counts = pairs.new_zeros(n_images, n_classes**2 + 1)
        counts.scatter_add_(1, pairs, torch.ones_like(pairs))
        matrix = counts[:, :-1].view(n_images, n_classes, n_classes)
        both = matrix.diagonal(dim1=1, dim2=2)
        either = matrix.sum(dim=1) + matrix.sum(dim=2) - both
        return torch.stack([both, either], dim=2)

    def error_of(self, statistics: Tensor) -> Tensor:
        error = 1 - mean_iou(statistics.sum(dim=0))
        return error.float().to(statistics.device)

    def image_errors(self, statistics: Tensor) -> Tensor:
        """Jackknife pseudo-values: N times the error of all N images, minus N - 1 times
        that of all others, shifted so that their mean is the error.

        Ref: Efron and Tibshirani 1993, An introduction to the bootstrap, 11.3.
        """
        n_images = len(statistics)
        total = statistics.sum(dim=0)
        error = 1 - mean_iou(total)
        others = 1 - mean_iou(total - statistics)
        values = n_images * error - (n_images - 1) * others
        return (values + error - values.mean()).float()

    def class_errors(self, statistics: Tensor) -> Tensor:
        return 1 - class_ious(statistics.sum(dim=0))

    def smoothing(self, outputs: Tensor, labels: Tensor) -> Tensor:
        even = -outputs.log_softmax(dim=1).mean(dim=1)
        is_valid = labels != IGNORED
        return _mean_of_pixels(even, is_valid) - _cross_entropies(outputs, labels)

    def probabilities(self, outputs: Tensor) -> Tensor:
        return outputs.softmax(dim=1)

    def n_answers(self, probabilities: Tensor) -> int:
        return 1

    def doubts(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean over the classes that a mask has, so that small objects count as
        much as the background; 0 for a mask of ignored pixels only.
        """
        return self.class_doubts(outputs, labels).nanmean(dim=1).nan_to_num(0.0)

    def class_doubts(self, outputs: Tensor, labels: Tensor) -> Tensor:
        """The mean doubt about the pixels of a class."""
        probabilities = self.probabilities(outputs)
        numbers = torch.arange(outputs.shape[1], device=outputs.device)
        is_class = labels[:, None] == numbers[:, None, None]
        doubts = ((1 - probabilities) * is_class).sum(dim=(2, 3))
        return doubts / is_class.sum(dim=(2, 3))

    def guessing_doubts(self, labels: Tensor) -> Tensor:
        return self.guessing_class_doubts(labels).nanmean(dim=1).nan_to_num(0.0)

    def guessing_class_doubts(self, labels: Tensor) -> Tensor:
        return torch.where(self.members(labels).T, 1 - _shares(labels), torch.nan)

    def guessing_error(self, labels: Tensor) -> Tensor:
        shares = _shares(labels)
        return 1 - shares.max() / (shares > 0).sum()

    def members(self, labels: Tensor) -> Tensor:
        n_classes = 1 + max(self.present(labels))
        numbers = torch.arange(n_classes, device=labels.device)
        return torch.stack([(labels == number).any(2).any(1) for number in numbers])

    def counts(self, labels: np.ndarray, n_classes: int) -> np.ndarray:
        return np.array(
            [(labels == number).any(axis=(1, 2)).sum() for number in range(n_classes)]
        )

    def present(self, labels: Tensor) -> list[int]:
        classes: list[int] = labels.unique().tolist()
        return [number for number in classes if number != IGNORED]

    def fits(self, labels: Tensor, n_classes: int) -> bool:
        classes = self.present(labels)
        return bool(classes) and classes[-1] < n_classes

    def strata(self, labels: np.ndarray) -> np.ndarray:
        """The rarest class that an image shows; one stratum for all that are the rarest
        of few images.
        """
        n_classes = 1 + int(labels.max(initial=0, where=labels != IGNORED))
        shown = np.stack(
            [(labels == number).any(axis=(1, 2)) for number in range(n_classes)], axis=1
        )
        counts = shown.sum(axis=0)
        rarest = np.where(shown, counts, len(labels) + 1).argmin(axis=1)
        of_rarest = np.bincount(rarest, minlength=n_classes)
        rarest[of_rarest[rarest] < FEWEST_OF_STRATUM] = of_rarest.argmax()
        strata: np.ndarray = np.unique(rarest, return_inverse=True)[1]
        return strata.astype(np.int64)

    def n_strata(self, n_classes: int) -> int:
        return 1

    def keep(
        self, labels: np.ndarray, classes: Sequence[int]
    ) -> tuple[np.ndarray, np.ndarray]:
        kept = np.full(256, IGNORED, dtype=np.uint8)
        kept[list(classes)] = np.arange(len(classes))
        return np.arange(len(labels)), kept[labels]


def mean_iou(statistics: Tensor) -> Tensor:
    """The mean, over the classes with a pixel in the union, of intersection over union.

    Args:
        statistics: Numbers of pixels in the intersection and in the union,
            (..., classes, 2).

    Returns:
        (...), float64; 1 if no class has a pixel.
    """
    means = class_ious(statistics).nanmean(dim=-1)
    return means.nan_to_num(1.0)


def class_ious(statistics: Tensor) -> Tensor:
    """The intersection over union of each class, float64 (..., classes), NaN if no
    pixel is in the union.

    Args:
        statistics: As for mean_iou.
    """
    exact = statistics.to(exact_device(statistics.device)).double()
    both, either = exact.unbind(-1)
    return both / either


def dice_losses(outputs: Tensor, labels: Tensor) -> Tensor:
    """1 minus the mean Dice coefficient of the classes that a mask has, for each image.

    Probabilities take the place of answers. Ref: Milletari, Navab and Ahmadi 2016,
    V-Net, eq. 3, with sums instead of sums of squares.

    Args:
        outputs: Logits (B, classes, H, W).
        labels: Masks uint8 (B, H, W).

    Returns:
        (B,) in [0, 1]; 0 for a mask of ignored pixels only.
    """
    is_valid = labels != IGNORED
    numbers = torch.arange(outputs.shape[1], device=outputs.device)[:, None, None]
    targets = (labels[:, None] == numbers).to(outputs.dtype)
    probabilities = outputs.softmax(dim=1) * is_valid[:, None]
    n_pixels = targets.sum(dim=(2, 3))
    both = 2 * (probabilities * targets).sum(dim=(2, 3))
    coefficients = both / (probabilities.sum(dim=(2, 3)) + n_pixels).clamp(min=1)
    is_shown = n_pixels > 0
    n_shown = is_shown.sum(dim=1).clamp(min=1)
    return ((1 - coefficients) * is_shown).sum(dim=1) / n_shown


def _cross_entropies(outputs: Tensor, labels: Tensor) -> Tensor:
    """The mean cross entropy of the pixels of each image (B,) that have a class."""
    losses = F.cross_entropy(
        outputs, labels.long(), ignore_index=IGNORED, reduction="none"
    )
    return _mean_of_pixels(losses, labels != IGNORED)


def _mean_of_pixels(values: Tensor, is_valid: Tensor) -> Tensor:
    """The mean (B,) of values (B, H, W) over valid pixels; 0 without any."""
    n_valid = is_valid.sum(dim=(1, 2)).clamp(min=1)
    return (values * is_valid).sum(dim=(1, 2)) / n_valid


def _shares(labels: Tensor) -> Tensor:
    """The share of each class among the pixels that have one."""
    counts = labels[labels != IGNORED].long().bincount().float()
    return counts / counts.sum()
