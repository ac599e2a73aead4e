"""What a schedule does beside its operations: the curve of each regularizer, and how far the search moved it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hba.policy.space import SearchSpace
from hba.regularization.groups import find_regularizer
from hba.regularization.hyperparameter import Hyperparameter
from hba.schedule.schedule import Schedule
from hba.schedule.summary import start_of
from hba.utils.text import first_of


@dataclass(frozen=True)
class RegularizerSummary:
    """One regularizer in natural units. began: where the search began, or where the space says that one would begin.
    values: one for each epoch.
    """

    hyperparameter: Hyperparameter
    began: float
    values: tuple[float, ...]

    @property
    def size(self) -> float:
        """How far it moved from where it began to the last epoch, in [0, 1] of its range on its scale."""
        return abs(place_of(self.hyperparameter, self.values[-1]) - place_of(self.hyperparameter, self.began))


def is_of_text(schedule: Schedule) -> bool:
    """Whether a search on text found it, or it has what language models alone have."""
    own = (find_regularizer(one.group).place == "states" for one in schedule.space.regularizers)
    return "vocabulary_size" in schedule.provenance or any(own)


def summarize_regularizers(schedule: Schedule) -> tuple[RegularizerSummary, ...]:
    """All of them, in the order of the space; empty where none was tuned."""
    space = schedule.space
    if not space.regularizers:
        return ()
    start = start_of(schedule)
    begun = space.decode(space.initial().double()).numpy() if start is None else start
    return tuple(
        # Without what a logit of single precision adds.
        RegularizerSummary(one, float(f"{begun[column]:.6g}"), tuple(schedule.values[:, column].tolist()))
        for column, one in enumerate(space.regularizers, space.n_of_policy)
    )


def by_group(summaries: Sequence[RegularizerSummary]) -> dict[str, list[RegularizerSummary]]:
    """Those that are tuned together, by the group's name."""
    found: dict[str, list[RegularizerSummary]] = {}
    for one in summaries:
        found.setdefault(one.hyperparameter.group, []).append(one)
    return found


def of_one_range(summaries: Sequence[RegularizerSummary]) -> list[list[RegularizerSummary]]:
    """Those of one group that one axis holds: they have range, scale and unit alike."""
    found: dict[tuple[object, ...], list[RegularizerSummary]] = {}
    for summary in summaries:
        one = summary.hyperparameter
        found.setdefault((one.group, one.low, one.high, one.scale, one.unit), []).append(summary)
    return list(found.values())


def on_pixels(space: SearchSpace) -> tuple[str, ...]:
    """Groups that act on images in [0, 1], so a picture can show what they do; as `tune` calls them."""
    found = [find_regularizer(name) for name in dict.fromkeys(one.group for one in space.regularizers)]
    return tuple(one.tuned_as for one in found if one.place == "pixels")


def not_on_pixels(space: SearchSpace) -> tuple[str, ...]:
    """Names of the other regularizers, which no picture shows."""
    return tuple(one.name for one in space.regularizers if find_regularizer(one.group).place != "pixels")


def place_of(hyperparameter: Hyperparameter, value: float) -> float:
    """Where in its range a value is, in [0, 1]: on a log scale, of the logarithms."""
    low, high = hyperparameter.low, hyperparameter.high
    if hyperparameter.scale == "log":
        low, high, value = math.log(low), math.log(high), math.log(value)
    return (value - low) / (high - low)


def left_out(space: SearchSpace, most: int | None = None) -> str:
    """What is not taken where operations alone are, and where it is found. most: regularizers that are named."""
    names = [one.name for one in space.regularizers]
    return f"{first_of(names, most or len(names))}; schedule.regularization(epoch) has their values"
