"""Regularizers that act inside the network (dropout, weight decay) or add to the training loss."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from hba.data.labels import is_multi_label
from hba.errors import SettingsError
from hba.hypernet.dropout import DROPOUTS, RatedDropout
from hba.regularization.regularizer import Hyperparameter

DROPOUT, WEIGHT_DECAY = "dropout", "weight_decay"
LARGEST_RATE = 0.95
"""STN, section 4.2; also in Delta-STN's code for images."""
INITIAL_RATE = 0.05
"""For a network whose own rate is 0 (STN, sections 4.2 and 4.3)."""
LEAST_WEIGHT_DECAY, LARGEST_WEIGHT_DECAY = 1e-6, 0.1
"""A range around common values: 5e-5 to 0.01 in the paper's Tables 10 and 11."""
INITIAL_WEIGHT_DECAY = 1e-5
"""If the settings have none. The lower end of the range would hardly move."""


def dropouts(network: nn.Module) -> Mapping[str, nn.Module]:
    """Dropout modules by name, in the order of their definition, without duplicates."""
    modules = network.named_modules()
    return {name: module for name, module in modules if type(module) in DROPOUTS or isinstance(module, RatedDropout)}


def dropout_hyperparameters(network: nn.Module) -> tuple[Hyperparameter, ...]:
    """One for each dropout module, `dropout.<module>`, which begins at the module's rate if that is not 0.

    Raises SettingsError for a network without any.
    """
    rates: dict[str, Any] = {name: module.p for name, module in dropouts(network).items()}
    if not rates:
        raise SettingsError(
            f"tune dropout needs a network with modules nn.Dropout, {type(network).__name__} has none; give another "
            "model, or omit dropout"
        )
    initial = {f"{DROPOUT}.{name}": min(float(rate) or INITIAL_RATE, LARGEST_RATE) for name, rate in rates.items()}
    return tuple(Hyperparameter(name, 0.0, LARGEST_RATE, rate) for name, rate in initial.items())


def weight_decay_hyperparameter(weight_decay: float) -> Hyperparameter:
    """On a log scale. It begins at the weight decay of the settings, limited to the range, or at the default one."""
    initial = min(max(weight_decay or INITIAL_WEIGHT_DECAY, LEAST_WEIGHT_DECAY), LARGEST_WEIGHT_DECAY)
    return Hyperparameter(WEIGHT_DECAY, LEAST_WEIGHT_DECAY, LARGEST_WEIGHT_DECAY, initial, "log")


def check_dropouts(network: nn.Module, names: Sequence[str], *, may_be_some: bool = False) -> None:
    """SettingsError unless these are the dropout modules of the network, so that rates for them fit it whole.

    may_be_some: others that the network has may keep their own rates.
    """
    known = dropouts(network)
    if not (set(names) <= set(known) if may_be_some else set(names) == set(known)):
        raise SettingsError(
            f"the schedule has rates for the dropouts {', '.join(names)}, {type(network).__name__} has "
            f"{', '.join(known) or 'none'}: train the model that was searched, or take "
            "schedule.without_regularizers() in Python"
        )


def label_smoothing(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
    """What smoothing labels by `value` (B,) in [0, 1] adds to the loss of each image (B,), logits (B, K).

    Targets are (1 - s) onehot + s / K (Szegedy et al. 2016, section 7), of several labels (1 - s) y + s / 2 each.
    The loss is linear in the targets, so it grows by s (loss of the even targets - loss of the labels).
    """
    if is_multi_label(labels):
        of_even = F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, 0.5), reduction="none").mean(dim=1)
        of_labels = F.binary_cross_entropy_with_logits(logits, labels.to(logits), reduction="none").mean(dim=1)
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
