"""The augmentations of baselines: schedules made of a schedule."""

import dataclasses

import torch
from torch import Tensor

from hba.schedule.schedule import Schedule
from hba.schedule.summary import start_logits


def start(schedule: Schedule) -> Schedule:
    """The policy that the search of this schedule started from, in every epoch, with the mean spread of the schedule.

    Where the start is not recorded, it is `middle`.
    """
    logits = start_logits(schedule)
    return middle(schedule) if logits is None else _of_logits(schedule, logits)


def middle(schedule: Schedule) -> Schedule:
    """In every epoch all probabilities 0.5, all magnitudes in the middle of their range, and the mean spread.

    There, Brightness, Color, Contrast and Sharpness have no direction. A searched K has the space's own probabilities.
    """
    return _of_logits(schedule, schedule.space.initial(0.5))


def _of_logits(schedule: Schedule, logits: Tensor) -> Schedule:
    values = schedule.space.decode(logits.double())[None].numpy()
    return dataclasses.replace(schedule, values=values, spread=schedule.averaged().spread)


def respread(schedule: Schedule, spread: float | None) -> Schedule:
    """The schedule with another spread, as by Schedule.with_spread; None changes nothing.

    It applies to probabilities too, unless the schedule spreads magnitudes alone.
    """
    if spread is None:
        return schedule
    of_probabilities = schedule.spread[:, schedule.space.probability_columns(torch.device("cpu")).numpy()]
    return schedule.with_spread(spread, probabilities=bool(of_probabilities.any() or not schedule.spread.any()))
