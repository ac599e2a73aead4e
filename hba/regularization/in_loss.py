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


def activation(states: Tensor, dropped: Tensor, *, alpha: Tensor, beta: Tensor) -> Tensor:
    """Activation regularisation, and its temporal kind, of each column of a passage (B,).

    alpha (B,) times the mean square of what dropout leaves of the last layer's states (B, T, H), and beta (B,) times
    the mean square of how far the states (B, T, H) move from word to word. T is at least 2. Ref: Merity et al. 2017,
    whose means of squares these are; STN (MacKay et al. 2019), eq. 63 and 64, prints norms.
    """
    moved = states[:, 1:] - states[:, :-1]
    return alpha * dropped.square().mean(dim=(1, 2)) + beta * moved.square().mean(dim=(1, 2))
