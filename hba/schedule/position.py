"""The place in a schedule that a transform uses, which a training moves from epoch to epoch."""

import warnings
from typing import Any

import torch
from torch import nn

from hba.errors import SettingsError
from hba.utils.settings import whole_number


class FollowsSchedule(nn.Module):
    """A module with a place in a schedule, at first the last row.

    set_epoch or set_progress choose the place, and reach DataLoader workers, persistent ones too.
    """

    def __init__(self, schedule: Any) -> None:
        # A Schedule, whose module imports this one.
        super().__init__()
        self.schedule = schedule
        # A row number in shared memory: worker processes hold copies of this object, but see the same number.
        self._position = torch.full((), schedule.epochs - 1, dtype=torch.float64).share_memory_()

    def set_epoch(self, epoch: int, epochs: int | None = None) -> None:
        """Use the schedule's row for an epoch of a training, counted from 0.

        epochs: of the training; the schedule is stretched to them (see Schedule.stretched). None takes the schedule's
        rows as they are, for a training of exactly as many epochs, and warns, because a shorter training would end
        before the schedule does; not if the schedule was stretched. Raises SettingsError for an epoch outside of the
        training, and for what is no whole number.
        """
        length = self.schedule.epochs if epochs is None else whole_number("epochs", epochs)
        epoch = whole_number("epoch", epoch)
        if not 0 <= epoch < length:
            raise SettingsError(f"epoch must lie in [0, {length - 1}], got {epoch}; call set_epoch(epoch, epochs)")
        if epochs is not None:
            self.set_progress(epoch / (length - 1) if length > 1 else 0.5)
            return
        if length > 1 and not self.schedule.is_stretched:
            warnings.warn(
                f"set_epoch(epoch) takes the schedule row by row, which is right for a training of {length} epochs "
                "only; call set_epoch(epoch, epochs), with the epochs of your training",
                stacklevel=2,
            )
        self._position.fill_(float(epoch))

    def set_progress(self, fraction: float) -> None:
        """Use the place at a fraction in [0, 1] of the schedule, linear between rows; needs no stretching."""
        self._position.fill_(self.schedule.position(fraction))

    @property
    def position(self) -> float:
        """The current row number; fractional between two rows."""
        return float(self._position)

    def extra_repr(self) -> str:
        return f"epochs={self.schedule.epochs}, position={self.position:g}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A copy, unlike a worker's, gets its own place, which its own workers then share.
        self._position.share_memory_()
