"""How often a search moves its policy, how far that can carry it, and how many epochs that asks for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hba.algorithms.algorithm import Rhythm
from hba.algorithms.lambda_optimizers import RMSPROP, largest_stride
from hba.utils.provenance import LARGEST_COUNT, count_of, number_of
from hba.utils.text import counted

LEAST_LOGITS = 1.0
"""A search whose steps cannot carry a hyperparameter this far is too short: one logit makes a probability of 0.73 out
of 0.50."""
WANTED_LOGITS = 3.0
"""What a longer one should be able to: 0.95 out of 0.50, so a hyperparameter can come near an end of its range."""
TRIED_STEPS = 48
"""The fewest policy steps with which the default search is known to find planted operations: in 30 of 30 searches of
120 epochs of digits, which have so many (docs/search-quality.md, "Planted answers")."""


@dataclass(frozen=True)
class Pace:
    """When the policy steps of an algorithm's rhythm come in a search, and how far they carry."""

    steps_per_epoch: int
    rhythm: Rhythm

    def policy_steps(self, epochs: int, done: int | None = None, lengthened: Sequence[Mapping[str, int]] = ()) -> int:
        """How many there are in a search of so many epochs, or in the first `done` of them.

        lengthened: how it came to be so long, as history.py keeps it. Earlier steps came in the rhythm of fewer epochs.
        """
        until, every = (epochs if done is None else done) * self.steps_per_epoch, self.rhythm.train_steps
        parts = [(entry["from_epochs"], entry["at_step"]) for entry in lengthened]
        rounds, after = 0, 0
        for length, end in [*parts, (epochs, until)]:
            begin = max(after, self.rhythm.warm_up_of(length) * self.steps_per_epoch)
            rounds += max(0, min(end, until) // every - begin // every)
            after = end
        return self.rhythm.in_a_row * rounds

    def _rounds(self, epochs: int) -> int:
        return epochs * self.steps_per_epoch // self.rhythm.train_steps

    def next_policy_step(self, step: int, epochs: int) -> int:
        """The training step, counted from 1, that the first policy step after training step `step` follows, in a search
        of so many epochs.
        """
        every, warm_up_steps = self.rhythm.train_steps, self.rhythm.warm_up_of(epochs) * self.steps_per_epoch
        return (max(step, warm_up_steps) // every + 1) * every

    @property
    def _tried_steps(self) -> int:
        """Nothing is known of how often a population has to select."""
        return 0 if self.rhythm.selects else TRIED_STEPS

    def advised_epochs(self) -> int:
        """Epochs whose policy steps can carry a logit as far as is wanted, and are as many as were tried; needs steps
        that move it.
        """
        wanted = math.ceil(max(self.rhythm.steps_to(WANTED_LOGITS), self._tried_steps) / self.rhythm.in_a_row)
        if self.rhythm.warm_up_epochs is None:
            return 2 * self._epochs_of(wanted)
        return self._epochs_of(self._rounds(self.rhythm.warm_up_epochs) + wanted)

    def _epochs_of(self, rounds: int) -> int:
        return math.ceil(rounds * self.rhythm.train_steps / self.steps_per_epoch)

    def advice(self, epochs: int, policy_steps: int | None = None) -> str | None:
        """One sentence where so many epochs are too few; None where they are not, and where no step is wanted.

        policy_steps: where there are others in them than from the beginning, as in a lengthened search.
        """
        steps = self.policy_steps(epochs) if policy_steps is None else policy_steps
        if self.rhythm.in_a_row * self.rhythm.stride == 0:
            return None
        if self.rhythm.reach(steps) >= LEAST_LOGITS:
            return self._few(steps)
        remedy = self._remedy
        if steps == 0:
            return f"No policy step comes in so few training steps: {remedy}."
        farthest = 100 / (1 + math.exp(-self.rhythm.reach(steps)))
        count = "1 policy step is" if steps == 1 else f"{steps} policy steps are"
        what = "it" if steps == 1 else "they"
        return (
            f"{count} too few: {what} can move a hyperparameter from the middle of its range to about {farthest:.0f} % "
            f"of it at most; {remedy}."
        )

    @property
    def _remedy(self) -> str:
        return f"use about {self.advised_epochs()} epochs, or a smaller batch size"

    def _few(self, steps: int) -> str | None:
        if steps >= self._tried_steps:
            return None
        known = f"the default search found planted answers with {TRIED_STEPS}, and fewer were not tried"
        return f"{counted(steps, 'policy step')} {'is' if steps == 1 else 'are'} few: {known}; {self._remedy}."


def pace_in(provenance: Mapping[str, Any]) -> Pace | None:
    """Of the search that made a schedule; None where its provenance, which may come from elsewhere, does not say it."""
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
    # Searches had no shared coordinates once.
    shared = number_of(settings.get("strength_learning_rate", 0.0), 0, LARGEST_COUNT)
    if own is None or shared is None or None in (steps_per_epoch, train_steps, val_steps, warm_up_epochs):
        return None
    warm_up = None if is_half else warm_up_epochs
    is_rmsprop = settings.get("lambda_optimizer") == RMSPROP
    rhythm = Rhythm(train_steps, val_steps, warm_up, largest_stride(own, shared), by_population, is_rmsprop)  # type: ignore[arg-type]
    return Pace(steps_per_epoch, rhythm)  # type: ignore[arg-type]


def advice_in(provenance: Mapping[str, Any]) -> str | None:
    """Pace.advice for the search that made a schedule; None for an unfinished one, and where nobody knows."""
    pace, settings = pace_in(provenance), provenance.get("settings")
    finished = count_of(provenance.get("epochs_finished"), least=1)
    if pace is None or finished is None or not isinstance(settings, dict) or settings.get("epochs") != finished:
        return None
    return pace.advice(finished, policy_steps_in(provenance))


def policy_steps_in(provenance: Mapping[str, Any]) -> int | None:
    """How many made a schedule; None where its provenance, which may come from elsewhere, does not say it."""
    return count_of(provenance.get("policy_steps"))
