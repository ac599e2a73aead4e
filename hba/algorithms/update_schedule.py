"""When the policy steps of a search come, and notes on searches that learn too little.

A policy step is a step on the hyperparameters, or the selection of a member from a population.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hba.utils.text import LARGEST_COUNT, counted, number_of

LEAST_LOGITS = 1.0
"""A search that cannot move a hyperparameter this far is too short. One logit takes a probability from 0.50 to 0.73."""
WANTED_LOGITS = 3.0
"""How far an advised search can move a hyperparameter: from 0.50 to 0.95, so near the end of a range."""
TRIED_STEPS = 48
"""The fewest policy steps with which the default search is known to find planted operations: in 30 of 30 searches of
120 epochs of digits, which have so many (docs/search-quality.md, "Planted answers")."""
UNLEARNT = 0.5
"""A network has not fitted its training images if its error on them is above this share of the error of guessing."""
OF_OPERATION = 0.5
"""By how much a step on an operation's shared coordinate moves the probabilities of its copies."""


def largest_stride(own: float, shared: float) -> float:
    """Approximate largest move of a hyperparameter in one step, given its own and the shared learning rate."""
    return own + (1 + OF_OPERATION) * shared


@dataclass(frozen=True)
class UpdateSchedule:
    """in_a_row policy steps follow every train_steps training steps after the warm-up.

    stride: approximate largest move of a logit by one step; 0 if unknown. tried_steps: the fewest policy steps known to
    be enough; 0 if unknown, as for the selections of a population. Its methods take the training steps of an epoch.
    """

    train_steps: int
    in_a_row: int = 1
    warm_up_epochs: int = 0
    stride: float = 0.0
    tried_steps: int = TRIED_STEPS

    def policy_steps(self, epochs: int, steps_per_epoch: int) -> int:
        """Number of policy steps in the first epochs of a search."""
        rounds, of_warm_up = (n * steps_per_epoch // self.train_steps for n in (epochs, self.warm_up_epochs))
        return self.in_a_row * max(0, rounds - of_warm_up)

    def advised_epochs(self, steps_per_epoch: int) -> int:
        """Epochs with enough policy steps: they can move a logit by WANTED_LOGITS and are as many as tried_steps. The
        stride must be above 0.
        """
        rounds = math.ceil(max(math.ceil(WANTED_LOGITS / self.stride), self.tried_steps) / self.in_a_row)
        rounds += self.warm_up_epochs * steps_per_epoch // self.train_steps
        return math.ceil(rounds * self.train_steps / steps_per_epoch)

    def advice(self, epochs: int, steps_per_epoch: int) -> str | None:
        """One sentence if a search of so many epochs is too short; None if not, or if no policy step is wanted."""
        steps, most = self.policy_steps(epochs, steps_per_epoch), self.in_a_row * self.stride
        if most == 0 or (steps * self.stride >= LEAST_LOGITS and steps >= self.tried_steps):
            return None
        return (
            f"{counted(steps, 'policy step')} may be too few to find a policy; use about "
            f"{self.advised_epochs(steps_per_epoch)} epochs, or a smaller batch size."
        )


def advice_in(provenance: Mapping[str, Any]) -> str | None:
    """UpdateSchedule.advice on the search that made a schedule; None for an unfinished one, or if nothing is known."""
    found = _of_finished_search(provenance)
    own, shared = found.get("lambda_learning_rate"), found.get("strength_learning_rate", 0.0)
    try:
        if own is None:
            updates = UpdateSchedule(found["train_steps"], stride=found["sigma"], tried_steps=0)
        else:
            stride = largest_stride(own, shared)
            updates = UpdateSchedule(found["train_steps"], found["val_steps"], found["warm_up_epochs"], stride)
        return updates.advice(found["epochs"], found["steps_per_epoch"])
    except (KeyError, TypeError, ZeroDivisionError):
        return None


def overfitting_note_in(provenance: Mapping[str, Any]) -> str | None:
    """One sentence if the network of a search shows no sign of overfitting after its last epoch; None if it may.

    A search learns from what makes validation images harder than training images. Two signs are asked for, because each
    alone is common in searches that help. A validation loss not above the training loss: the latter is of augmented
    images, so this is so on digits with 5 % error. A high error on augmented images: a strong policy makes it so, but
    the validation loss is then far above the training loss, unless there was too little training.

    Also None for an unfinished search, for images with several labels, whose error of guessing is unknown, or if the
    provenance does not say.
    """
    found, names = _of_finished_search(provenance), provenance.get("class_names")
    loss, error, val_loss = (found.get(name) for name in ("train_loss", "train_error_percent", "val_loss"))
    if provenance.get("error") is not None or not isinstance(names, list) or len(names) < 2:
        return None
    if loss is None or error is None or val_loss is None:
        return None
    guessing_percent = 100 * (1 - 1 / len(names))
    if val_loss > loss or error < UNLEARNT * guessing_percent:
        return None
    return (
        f"The search's network does not overfit: in epoch {found['epochs']} {error:.0f} % of its augmented training "
        f"images are wrong, and its loss on validation images, {val_loss:.2f}, is not above that on them, {loss:.2f}. "
        "A search learns from overfitting: use more epochs or a larger network, or train without a schedule."
    )


def _of_finished_search(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """All numbers, and None, of a provenance, which any program may have written, and of its settings; empty for an
    unfinished search, and for one of several legs, which has many networks.
    """
    settings = provenance.get("settings")
    flat = {**settings, **provenance} if isinstance(settings, dict) and "legs" not in provenance else {}
    found = {name: one for name, one in flat.items() if one is None or number_of(one, 0, LARGEST_COUNT) is not None}
    return found if found.get("epochs") and found["epochs"] == found.get("epochs_finished") else {}
