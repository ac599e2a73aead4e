"""The history of a search: what it notes at the end of every epoch, and how it can be extended by more epochs."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hba.algorithms import SearchState
from hba.algorithms.state import InnerModel
from hba.algorithms.task import Task
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.training.optim import WITHOUT_EPOCHS

VALUE_DIGITS = 6

Metrics = dict[str, float | None]


@dataclass
class History:
    """Everything that was noted in the finished epochs.

    epochs: how many there are to be. rows: one row of values (n,) in natural units for each finished epoch. spreads:
    one number for each, in logits, or one list (n,) if the noise is learnt. metrics: one mapping for each. seconds:
    computing time so far, over all runs. lengthened: one entry for each time that the search was given more epochs.
    """

    epochs: int
    rows: list[list[float]] = field(default_factory=list)
    spreads: list[float | list[float]] = field(default_factory=list)
    metrics: list[Metrics] = field(default_factory=list)
    seconds: float = 0.0
    lengthened: list[dict[str, int]] = field(default_factory=list)

    def note(self, row: list[float], spread: float | list[float], metrics: Metrics, space: SearchSpace) -> None:
        """Add an epoch that ended, with its row and spread, which are rounded here."""
        if isinstance(spread, list):
            self.spreads.append([round(one, VALUE_DIGITS) for one in spread])
        else:
            self.spreads.append(round(spread, VALUE_DIGITS))
        self.metrics.append({**metrics, "seconds": self.seconds})
        rounded = [float(np.round(value, decimals_of(*ends))) for value, ends in zip(row, space.ranges, strict=True)]
        for column in range(space.n_of_policy, space.n):
            # Six decimals of a weight decay of 1e-6 would be a single digit.
            rounded[column] = float(f"{row[column]:.{VALUE_DIGITS}g}")
        # Rounding must not carry a value past the end of its range.
        self.rows.append(np.clip(rounded, *np.sort(space.ranges).T).tolist())


def decimals_of(low: float, high: float) -> int:
    """Decimals that are kept of a value in a range: six, and more if the range is narrower than a tenth."""
    width = abs(high - low)
    return VALUE_DIGITS + (max(0, -1 - math.floor(math.log10(width))) if width else 0)


def row_of(space: SearchSpace, lam: Tensor) -> list[float]:
    """lambda (n,) in natural units."""
    row: list[float] = space.decode(lam.detach().double()).tolist()
    return row


def finite_or_none(value: float | None) -> float | None:
    """The value if JSON can hold it: neither infinity nor not-a-number."""
    return value if value is not None and math.isfinite(value) else None


def extend_epochs(task: Task, state: SearchState[InnerModel], history: History) -> str | None:
    """Give a restored search the epochs of its settings, if they are more than before; SettingsError if they are fewer.

    From this step on, the learning rate, the noise of sigma_end and the warm-up are those of a search of the new length
    at the same step. So the learning rate jumps up, and the schedule is not the one that a search of so many epochs
    finds from its beginning. Returns a sentence that says so, or None if nothing changes.
    """
    epochs, before, done = task.config.epochs, history.epochs, len(history.rows)
    if epochs < before:
        raise SettingsError(f"epochs must be at least the {before} that the run was to have, got {epochs}")
    if epochs == before:
        return None
    old_rate = state.learner.learning_rate
    follows_epochs = task.config.learning_rate_schedule not in WITHOUT_EPOCHS
    if follows_epochs:
        _take_the_longer_schedule(task, state)
    history.epochs = epochs
    if state.step == 0:
        return None
    history.lengthened.append({"from_epochs": before, "to_epochs": epochs, "at_epoch": done, "at_step": state.step})
    extended = f"Extended from {before} to {epochs} epochs after {done}"
    if not follows_epochs:
        return f"{extended}: the learning rate does not depend on their number."
    return (
        f"{extended}: from here on the learning rate is that of {epochs} epochs ({old_rate:.3g} -> "
        f"{state.learner.learning_rate:.3g}), so the schedule differs from that of a search with {epochs} epochs from "
        "the beginning."
    )


def _take_the_longer_schedule(task: Task, state: SearchState[InnerModel]) -> None:
    """Set the learning rate to the one that a search of the new length has at this step, to the last bit.

    The schedules compute each rate from the one before, so a stand-in is stepped to this point.
    """
    optimizer = state.learner.optimizer
    groups = [{"params": [torch.zeros(1, requires_grad=True)]} for _ in optimizer.param_groups]
    stand_in, longer = task.optimizer_of(groups)
    for _ in range(state.step):
        stand_in.step()
        longer.step()
    state.learner.schedule.load_state_dict(longer.state_dict())
    for group, of_longer in zip(optimizer.param_groups, stand_in.param_groups, strict=True):
        group["lr"] = of_longer["lr"]
