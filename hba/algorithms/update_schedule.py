"""When the policy steps of a search come, how far they move the policy, and notes on searches that learn too little.

A policy step is a step on the hyperparameters, or the selection of a member from a population.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hba.algorithms.lambda_optimizers import largest_stride
from hba.utils.provenance import LARGEST_COUNT, count_of, number_of
from hba.utils.text import counted

LEAST_LOGITS = 1.0
"""A search that cannot move a hyperparameter this far is too short. One logit takes a probability from 0.50 to 0.73."""
WANTED_LOGITS = 3.0
"""What a longer search should be able to: from 0.50 to 0.95, so near the end of a range."""
TRIED_STEPS = 48
"""The fewest policy steps with which the default search is known to find planted operations: in 30 of 30 searches of
120 epochs of digits, which have so many (docs/search-quality.md, "Planted answers")."""
UNLEARNT = 0.5
"""A network has not fitted its training images if its error on them is above this share of the error of guessing."""
LARGEST_LOSS = 1e6


@dataclass(frozen=True)
class UpdateSchedule:
    """in_a_row policy steps follow every train_steps training steps after the warm-up.

    warm_up_epochs: None for half of all epochs. stride: approximate largest move of a logit by one step; 0 if unknown.
    selects: whether policy steps select members of a population. steps_per_epoch: training steps, needed to count
    policy steps.
    """

    train_steps: int
    in_a_row: int = 1
    warm_up_epochs: int | None = 0
    stride: float = 0.0
    selects: bool = False
    steps_per_epoch: int = 0

    def at(self, steps_per_epoch: int) -> "UpdateSchedule":
        """The same schedule for epochs of so many training steps."""
        return replace(self, steps_per_epoch=steps_per_epoch)

    def warm_up_of(self, epochs: int) -> int:
        """Epochs before the first policy step in a search of so many."""
        return epochs // 2 if self.warm_up_epochs is None else self.warm_up_epochs

    def policy_steps(self, epochs: int, done: int | None = None, lengthened: Sequence[Mapping[str, int]] = ()) -> int:
        """Number of policy steps in a search of so many epochs, or in its first `done` epochs.

        lengthened: entries of a search whose epochs were raised later; its earlier steps came at the warm-up of fewer.
        """
        until = (epochs if done is None else done) * self.steps_per_epoch
        parts = [(entry["from_epochs"], entry["at_step"]) for entry in lengthened]
        rounds, after = 0, 0
        for length, end in [*parts, (epochs, until)]:
            begin = max(after, self.warm_up_of(length) * self.steps_per_epoch)
            rounds += max(0, min(end, until) // self.train_steps - begin // self.train_steps)
            after = end
        return self.in_a_row * rounds

    @property
    def _tried_steps(self) -> int:
        # How often a population has to select is unknown.
        return 0 if self.selects else TRIED_STEPS

    def advised_epochs(self) -> int:
        """Epochs with enough policy steps: they can move a logit by WANTED_LOGITS and are as many as TRIED_STEPS. The
        stride must be above 0.
        """
        wanted = math.ceil(max(math.ceil(WANTED_LOGITS / self.stride), self._tried_steps) / self.in_a_row)
        if self.warm_up_epochs is None:
            return 2 * self._epochs_of(wanted)
        return self._epochs_of(self.warm_up_epochs * self.steps_per_epoch // self.train_steps + wanted)

    def _epochs_of(self, rounds: int) -> int:
        return math.ceil(rounds * self.train_steps / self.steps_per_epoch)

    def advice(self, epochs: int, policy_steps: int | None = None) -> str | None:
        """One sentence if a search of so many epochs is too short; None if it is not, or if no policy step is wanted.

        policy_steps: their number in a search whose epochs were raised later.
        """
        steps = self.policy_steps(epochs) if policy_steps is None else policy_steps
        if self.in_a_row * self.stride == 0:
            return None
        remedy = f"use about {self.advised_epochs()} epochs, or a smaller batch size"
        is_are = "is" if steps == 1 else "are"
        if steps == 0:
            return f"No policy step comes in so few training steps: {remedy}."
        if steps * self.stride < LEAST_LOGITS:
            farthest = 100 / (1 + math.exp(-steps * self.stride))
            return (
                f"{counted(steps, 'policy step')} {is_are} too few: {'it' if steps == 1 else 'they'} can move a "
                f"hyperparameter from the middle of its range to about {farthest:.0f} % of it at most; {remedy}."
            )
        if steps < self._tried_steps:
            return (
                f"{counted(steps, 'policy step')} {is_are} few: the default search found planted answers with "
                f"{TRIED_STEPS}, and fewer were not tried; {remedy}."
            )
        return None


def schedule_in(provenance: Mapping[str, Any]) -> UpdateSchedule | None:
    """The update schedule of the search that made a policy schedule; None if its provenance does not say."""
    settings = provenance.get("settings")
    if not isinstance(settings, dict):
        return None
    by_population = settings.get("lambda_learning_rate") is None
    steps_per_epoch = count_of(provenance.get("steps_per_epoch"), least=1)
    train_steps = count_of(settings.get("train_steps"), least=1)
    val_steps = 1 if by_population else count_of(settings.get("val_steps"))
    # None is half of all.
    is_half = not by_population and settings.get("warm_up_epochs", 0) is None
    warm_up_epochs = 0 if by_population or is_half else count_of(settings.get("warm_up_epochs"))
    own = number_of(settings.get("sigma" if by_population else "lambda_learning_rate"), 0, LARGEST_COUNT)
    # Early searches had no shared coordinates.
    shared = number_of(settings.get("strength_learning_rate", 0.0), 0, LARGEST_COUNT)
    if steps_per_epoch is None or train_steps is None or val_steps is None or warm_up_epochs is None:
        return None
    if own is None or shared is None:
        return None
    return UpdateSchedule(
        train_steps,
        val_steps,
        None if is_half else warm_up_epochs,
        largest_stride(own, shared),
        by_population,
        steps_per_epoch,
    )


def policy_steps_in(provenance: Mapping[str, Any]) -> int | None:
    """Number of policy steps that made a schedule; None if its provenance does not say."""
    return count_of(provenance.get("policy_steps"))


def advice_in(provenance: Mapping[str, Any]) -> str | None:
    """UpdateSchedule.advice on the search that made a schedule; None for an unfinished one, or if nothing is known."""
    updates, settings = schedule_in(provenance), provenance.get("settings")
    finished = count_of(provenance.get("epochs_finished"), least=1)
    if updates is None or finished is None or not isinstance(settings, dict) or settings.get("epochs") != finished:
        return None
    return updates.advice(finished, policy_steps_in(provenance))


def overfitting_note(
    train_loss: float, train_error_percent: float, val_loss: float, n_classes: int, epochs: int
) -> str | None:
    """One sentence if the network of a search shows no sign of overfitting after its last epoch; None if it may.

    A search learns from what makes validation images harder than training images. Two signs are asked for, because each
    alone is common in searches that help. A validation loss not above the training loss: the latter is of augmented
    images, so this is so on digits with 5 % error. A high error on augmented images: a strong policy makes it so, but
    the validation loss is then far above the training loss, unless there was too little training.
    Losses are in nats; the training loss and error are of augmented images.
    """
    guessing_percent = 100 * (1 - 1 / n_classes)
    if val_loss > train_loss or train_error_percent < UNLEARNT * guessing_percent:
        return None
    return (
        f"The search's network does not overfit: in epoch {epochs} {train_error_percent:.0f} % of its augmented "
        f"training images are wrong, and its loss on validation images, {val_loss:.2f}, is not above that on them, "
        f"{train_loss:.2f}. A search learns from overfitting: use more epochs or a larger network, or train without a "
        "schedule."
    )


def overfitting_note_in(provenance: Mapping[str, Any]) -> str | None:
    """overfitting_note on the search that made a schedule.

    None for an unfinished search, for images with several labels, whose error of guessing is unknown, or if the
    provenance does not say.
    """
    settings, names = provenance.get("settings"), provenance.get("class_names")
    epochs = count_of(provenance.get("epochs_finished"), least=1)
    train_loss, val_loss = (number_of(provenance.get(name), 0, LARGEST_LOSS) for name in ("train_loss", "val_loss"))
    error = number_of(provenance.get("train_error_percent"), 0, 100)
    if not isinstance(settings, Mapping) or not isinstance(names, list) or len(names) < 2:
        return None
    if provenance.get("error") is not None:
        return None
    if epochs is None or settings.get("epochs") != epochs or train_loss is None or val_loss is None or error is None:
        return None
    return overfitting_note(train_loss, error, val_loss, len(names), epochs)
