"""The rule by which a race decides, and its findings from a schedule's provenance."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, overload

from torch import Tensor

from hba.algorithms.race_policies import BEST, NO_GROUP

LARGEST_GAP = 0.15
"""Largest gap of a symmetry that holds, with its standard error. A gap is the share of
what a network has learned that moving the images costs.
"""
SMALL_GAP = 0.05
"""Largest gap of a symmetry that may be more than two standard errors above zero."""
ROUNDING = 1e-4
"""Losses that differ by less, in nats, may differ only by rounding, such as those of
forks with groups that change nothing.
"""


def is_symmetry(gap: float, error: float) -> bool:
    """Whether a symmetry holds. error: the standard error of its gap, which itself must
    be small: gaps of a network that has learned little are large numbers of any sign.
    """
    is_small = max(gap, 0) + error <= LARGEST_GAP
    return is_small and (gap <= SMALL_GAP or gap <= 2 * error)


def is_broken(gap: float, error: float, largest_gap: float) -> bool:
    """Whether a symmetry does not hold. error: the standard error of its gap."""
    return gap - error > largest_gap


@overload
def is_lower(change: float, error: float) -> bool: ...
@overload
def is_lower(change: Tensor, error: Tensor) -> Tensor: ...
def is_lower(change: Any, error: Any) -> Any:
    """Whether a loss is lower by more than a standard error.

    Args:
        change: The loss minus that of the fork `no group`; numbers or tensors.
        error: The standard error of the change.
    """
    return change + error < -ROUNDING


def leg_ends(provenance: Mapping[str, Any]) -> list[int]:
    """The last epoch of each leg, counted from 1; empty for a search without legs."""
    try:
        return list(accumulate(int(epochs) for _, epochs in provenance.get("legs", ())))
    except (TypeError, ValueError):
        # Any program may have written the provenance.
        return []


def has_ended(provenance: Mapping[str, Any]) -> bool:
    """Whether a search with legs has finished them all."""
    return provenance.get("epochs_finished") in leg_ends(provenance)[-1:]


@dataclass(frozen=True)
class RaceFindings:
    """symmetries: by name, the share of what the network had learned that moving images
    costs, and its standard error; NaN if it had learned nothing. largest_gap: the
    largest sum of the two with which a symmetry is chosen. forks: by name, the
    validation loss minus that of the fork `no group`, and its standard error, from the
    lowest. Forks with several groups are named after them, such as `shift + color`.
    loss: of the fork `no group`. winner: the chosen fork; None before the first has
    ended. taken: symmetries and groups of the policy. n_left: number of forks that have
    not ended. is_moved: whether look-ahead has moved the values of the policy.
    by_class: the symmetries of the policy that hold only for some classes. n_held_out,
    n_val: numbers of images; symmetries are measured on the training images that were
    held out and, unless has_own_val, on the validation images, forks on the latter.
    """

    symmetries: Mapping[str, tuple[float, float]]
    largest_gap: float
    forks: Mapping[str, tuple[float, float]]
    loss: float
    winner: str | None
    taken: tuple[str, ...]
    n_left: int
    is_moved: bool = False
    by_class: tuple[str, ...] = ()
    n_held_out: int = 0
    n_val: int = 0
    has_own_val: bool = False

    @staticmethod
    def of(provenance: Mapping[str, Any]) -> "RaceFindings | None":
        """Read them from the provenance of a schedule; None if no race has found it."""
        try:
            taken = provenance["taken"]
            forks = provenance["forks"]
            symmetries = provenance["symmetries"]
            differences = {
                name: (_number(minus), _number(error))
                for name, (_, minus, error) in forks.items()
            }
            gaps = {
                name: (_number(gap), _number(error))
                for name, (gap, error) in symmetries.items()
            }
            order = sorted(differences, key=lambda name: differences[name][0])
            groups = [
                name for name in order if name != NO_GROUP and not name.startswith(BEST)
            ]
            words = {
                name: " + ".join(groups[: int(name[len(BEST) :])])
                for name in order
                if name.startswith(BEST)
            }
            n_left = 0
            if not has_ended(provenance):
                # The first leg and that of look-ahead are no forks.
                n_left = len(provenance["legs"]) - 2 - len(forks)
            return RaceFindings(
                symmetries={
                    name: gaps[name]
                    for name in sorted(gaps, key=lambda name: gaps[name][0])
                },
                largest_gap=float(provenance["largest_gap"]),
                forks={words.get(name, name): differences[name] for name in order},
                loss=_number(forks[NO_GROUP][0]) if NO_GROUP in forks else math.nan,
                winner=words.get(taken["fork"], taken["fork"]),
                taken=tuple(taken["operations"]),
                n_left=n_left,
                is_moved=bool(taken.get("is_moved")),
                by_class=tuple(provenance["symmetries_by_class"]),
                n_held_out=int(provenance["n_held_out"]),
                n_val=int(provenance["n_validation"]),
                has_own_val=bool(provenance["has_own_validation"]),
            )
        except (AttributeError, KeyError, TypeError, ValueError):
            return None

    @property
    def new_images(self) -> str:
        """The images that symmetries were measured on, in words."""
        words = f"{self.n_held_out} training images that were held out"
        return (
            words if self.has_own_val else f"{words}, and {self.n_val} for validation"
        )

    @property
    def operations(self) -> list[str]:
        """The symmetries and groups of the policy, in words."""
        return [
            f"{name} of some classes" if name in self.by_class else name
            for name in self.taken
        ]

    @property
    def takes(self) -> str:
        return f"takes {', '.join(self.operations) or 'no augmentation'}"

    @property
    def holding(self) -> list[str]:
        """The symmetries that hold for all classes, which the policy applies."""
        return [
            name
            for name in self.symmetries
            if name in self.taken and name not in self.by_class
        ]

    @property
    def broken(self) -> list[str]:
        """The symmetries that do not hold for all classes."""
        return [
            name
            for name, (gap, error) in self.symmetries.items()
            if is_broken(gap, error, self.largest_gap)
        ]

    @property
    def undecided(self) -> list[str]:
        """The symmetries that are not decided, which the policy does not apply."""
        decided = (*self.holding, *self.broken, *self.by_class)
        return [name for name in self.symmetries if name not in decided]

    @property
    def lower(self) -> list[str]:
        """The forks that lowered the validation loss by more than a standard error,
        from the lowest.
        """
        return [
            name
            for name, (change, error) in self.forks.items()
            if is_lower(change, error)
        ]


def _number(stored: Any) -> float:
    """A number of the provenance, which has None for what is not finite."""
    return math.nan if stored is None else float(stored)
