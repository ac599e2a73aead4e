"""The loss for training networks, and the error for measuring them.

                labels             loss                           error
one class each  int64 (B,)         cross entropy                  share of wrong answers
several labels  bool (B, classes)  binary cross entropy of the    1 - mean average
                                   logits, mean over the classes  precision
mixed           MixedLabels        mean of the losses of both     error for the image's
                                   labels of an image, weighted   own label
                                   by their shares

The loss of mixed labels equals the loss of soft labels, as in torchvision's MixUp,
because it is linear in the labels. Every training, search and measurement uses this
loss and this error.
"""

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.data.labels import MixedLabels, is_multi_label, mean_over_labels
from hba.utils.devices import exact_device


def loss_of(logits: Tensor, labels: Tensor | MixedLabels) -> Tensor:
    """Mean loss () in nats of logits (B, classes)."""
    if isinstance(labels, MixedLabels) or is_multi_label(labels):
        return losses_of(logits, labels).mean()
    return F.cross_entropy(logits, labels)


def losses_of(logits: Tensor, labels: Tensor | MixedLabels) -> Tensor:
    """Loss in nats of each image (B,)."""
    if isinstance(labels, MixedLabels):
        return mean_over_labels(partial(losses_of, logits), labels)
    if is_multi_label(labels):
        return F.binary_cross_entropy_with_logits(
            logits, labels.to(logits), reduction="none"
        ).mean(dim=1)
    return F.cross_entropy(logits, labels, reduction="none")


def loss_sum_of(logits: Tensor, labels: Tensor) -> Tensor:
    """Sum () of the losses in nats of all images."""
    if is_multi_label(labels):
        return losses_of(logits, labels).sum()
    # A sum inside of PyTorch rounds differently from a sum of losses.
    return F.cross_entropy(logits, labels, reduction="sum")


def error_share(logits: Tensor, labels: Tensor | MixedLabels) -> Tensor:
    """Share () of the answers (B, classes) that are wrong; for several labels, 1 - mean
    average precision.
    """
    if isinstance(labels, MixedLabels):
        labels = labels.labels
    if is_multi_label(labels):
        return (1 - mean_average_precision(logits, labels)).float().to(logits.device)
    return (logits.argmax(1) != labels).float().mean()


def mean_average_precision(scores: Tensor, labels: Tensor) -> Tensor:
    """The mean average precision over the classes that have a positive, a scalar double
    on the exact_device.

    scores (N, classes), labels bool (N, classes). The average precision of a class is
    the mean, over its positives, of the precision among all images that score at least
    as high. So equal scores count together, as in scikit-learn's
    average_precision_score. If no class has a positive, the result is 1.
    """
    exact = exact_device(scores.device)
    scores, labels = scores.to(exact), labels.to(exact)
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
