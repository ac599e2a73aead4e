"""Labels of a batch whose images were mixed with others, as by Mixup and CutMix."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class MixedLabels:
    """Labels of a mixed batch and of its partners."""

    labels: Tensor
    """Labels of the images, (B,) or (B, classes)."""
    partners: Tensor
    """Labels of the images that were mixed in, of the same shape."""
    share: Tensor
    """Share of the image itself, () or (B,), in [0, 1]."""

    def __len__(self) -> int:
        return len(self.labels)


def mean_over_labels(
    function: Callable[[Tensor], Tensor], labels: Tensor | MixedLabels
) -> Tensor:
    """Apply a function of labels; for mixed labels, weight both results by the shares.

    The loss of mixed labels equals the loss of soft labels, as in torchvision's MixUp,
    because it is linear in the labels.

    Args:
        function: Maps labels to a result () or (B,).
        labels: Labels (B,) or (B, classes), or mixed ones.
    """
    if not isinstance(labels, MixedLabels):
        return function(labels)
    of_images = labels.share * function(labels.labels)
    return of_images + (1 - labels.share) * function(labels.partners)
