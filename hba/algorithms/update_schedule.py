"""The schedule of the policy steps of a search, and advice if they are too few.

A policy step is a step on the hyperparameters, or the selection of a member of a
population.
"""

import math
from dataclasses import dataclass

from hba.utils.text import counted

LEAST_LOGITS = 1.0
"""A search that cannot move a hyperparameter this far is too short. One logit takes a
probability from 0.50 to 0.73.
"""
WANTED_LOGITS = 3.0
"""A search of the advised length can move a hyperparameter this far: from 0.50 to 0.95,
near the end of a range.
"""
TRIED_STEPS = 48
"""The fewest policy steps with which look-ahead is known to find planted operations: in
30 of 30 searches of 120 epochs on digits, which have 48 (docs/search-quality.md,
"Planted answers").
"""
OF_OPERATION = 0.5
"""How far a step on an operation's shared coordinate moves the probabilities of its
copies.
"""


@dataclass(frozen=True)
class UpdateSchedule:
    """When policy steps happen: after every train_steps training steps.

    They begin once the warm-up is over. steps_per_epoch, an argument of the methods, is
    the number of training steps of an epoch.
    """

    train_steps: int
    """Training steps between policy steps."""
    in_a_row: int = 1
    """Policy steps in a row."""
    warm_up_epochs: int = 0
    """Epochs before the first policy step."""
    stride: float = 0.0
    """Approximate largest move of a logit in one step; 0 if unknown."""
    tried_steps: int = TRIED_STEPS
    """The fewest policy steps known to be enough; 0 if unknown, as for the selections
    of a population.
    """

    def policy_steps(self, epochs: int, steps_per_epoch: int) -> int:
        """Number of policy steps in the first epochs of a search."""
        rounds, of_warm_up = (
            n * steps_per_epoch // self.train_steps
            for n in (epochs, self.warm_up_epochs)
        )
        return self.in_a_row * max(0, rounds - of_warm_up)

    def advised_epochs(self, steps_per_epoch: int) -> int:
        """Epochs with at least tried_steps policy steps that can move a logit by
        WANTED_LOGITS, for a stride > 0.
        """
        rounds = math.ceil(
            max(math.ceil(WANTED_LOGITS / self.stride), self.tried_steps)
            / self.in_a_row
        )
        rounds += self.warm_up_epochs * steps_per_epoch // self.train_steps
        return math.ceil(rounds * self.train_steps / steps_per_epoch)

    def advice(self, epochs: int, steps_per_epoch: int) -> str | None:
        """One sentence if a search of `epochs` epochs is too short; None if not, or if
        it makes no policy steps.
        """
        steps = self.policy_steps(epochs, steps_per_epoch)
        most = self.in_a_row * self.stride
        if most == 0 or (
            steps * self.stride >= LEAST_LOGITS and steps >= self.tried_steps
        ):
            return None
        return (
            f"{counted(steps, 'policy step')} may be too few to find a policy; use"
            f" about {self.advised_epochs(steps_per_epoch)} epochs, or a smaller batch"
            " size."
        )
