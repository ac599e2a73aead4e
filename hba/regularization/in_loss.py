"""Regularizers that add to the training loss."""

import torch.nn.functional as F
from torch import Tensor

from hba.data.labels import is_multi_label


def label_smoothing(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
    """What smoothing labels by `value` (B,) in [0, 1] adds to the loss of each image (B,), logits (B, K).

    Targets are (1 - s) onehot + s / K (Szegedy et al. 2016, section 7), of several labels (1 - s) y + s / 2 each.
    The loss is linear in the targets, so it grows by s (loss of the even targets - loss of the labels).
    """
    if is_multi_label(labels):
        even, own = logits.new_full(logits.shape, 0.5), labels.to(logits)
        losses = (F.binary_cross_entropy_with_logits(logits, one, reduction="none") for one in (even, own))
        of_even, of_labels = (loss.mean(dim=1) for loss in losses)
    else:
        of_even = -logits.log_softmax(dim=1).mean(dim=1)
        of_labels = F.cross_entropy(logits, labels, reduction="none")
    return value * (of_even - of_labels)
