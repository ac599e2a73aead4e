"""The words that follow each word of a text."""

from typing import ClassVar, NamedTuple

import torch.nn.functional as F
from torch import Tensor

from hba.tasks.mixed_labels import MixedLabels
from hba.tasks.task import Task


class Prediction(NamedTuple):
    """What a language model predicts for B columns of T words."""

    logits: Tensor
    """Logits (B, T, V) of the words."""
    states: Tensor
    """States (B, T, H) of the last layer."""
    dropped: Tensor
    """The same after dropout."""


class Language(Task):
    """The next word at every place of a text: labels int64 (B, T), outputs a
    Prediction.
    """

    name: ClassVar[str] = "language"
    evaluate_command: ClassVar[str] = "evaluate-text"
    repeat_command: ClassVar[str | None] = None

    def loss(self, outputs: Prediction, labels: Tensor | MixedLabels) -> Tensor:
        if isinstance(labels, MixedLabels):
            return super().loss(outputs, labels)
        # A mean inside of PyTorch rounds differently from a mean of losses.
        return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())

    def losses_of_labels(self, outputs: Prediction, labels: Tensor) -> Tensor:
        by_class = outputs.logits.transpose(1, 2)
        return F.cross_entropy(by_class, labels, reduction="none").mean(dim=1)

    def error_of_labels(self, outputs: Prediction, labels: Tensor) -> Tensor:
        """Share () of words that are not the likeliest next one."""
        return (outputs.logits.argmax(dim=2) != labels).float().mean()


def activation(
    outputs: Prediction, labels: Tensor, *, alpha: Tensor, beta: Tensor
) -> Tensor:
    """Activation regularization, and its temporal kind, of each column of a passage.

    It is the mean square of the activations after dropout, and of the change of the
    states from word to word. Ref: Merity et al. 2017, with the same means of squares;
    STN (MacKay et al. 2019), eq. 63 and 64, prints norms.

    Args:
        outputs: What the network predicts, for at least two words.
        labels: The words that follow, which have no effect.
        alpha: Factor (B,) of the mean square of the states after dropout.
        beta: Factor (B,) of the mean square of the change of the states.

    Returns:
        The terms (B,).
    """
    moved = outputs.states[:, 1:] - outputs.states[:, :-1]
    of_size = outputs.dropped.square().mean(dim=(1, 2))
    of_change = moved.square().mean(dim=(1, 2))
    return alpha * of_size + beta * of_change
