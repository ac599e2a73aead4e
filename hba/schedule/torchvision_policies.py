"""torchvision's published policies, with the numbers of the installed torchvision.

torchvision draws the sign of magnitudes, also for the enhancers: half of their factors
are above 1, half below. AutoAugment and RandAugment shift by shares of the side;
TrivialAugment by up to 32 pixels, here of PHOTOGRAPH_SIDE.
"""

from collections.abc import Iterator, Mapping, Sequence

from torch import Tensor
from torchvision.transforms import (
    AutoAugment,
    AutoAugmentPolicy,
    RandAugment,
    TrivialAugmentWide,
)

from hba.errors import ScheduleError
from hba.operations import OPERATIONS
from hba.operations.drawing import SIGN
from hba.schedule.fit import Choice, SubPolicy
from hba.utils.text import unknown

PHOTOGRAPH_SIDE = 224
"""Side of a photograph in pixels, to convert TrivialAugment's shifts of up to 32 pixels
to shares of the side.
"""
DIGITS = 6
"""Digits of a magnitude in single precision."""

POLICIES: Mapping[str, AutoAugment | RandAugment | TrivialAugmentWide] = {
    **{
        f"autoaugment-{policy.value}": AutoAugment(policy)
        for policy in AutoAugmentPolicy
    },
    "randaugment": RandAugment(),
    "trivialaugment": TrivialAugmentWide(),
}
"""By name: AutoAugment (Cubuk et al. 2019), which applies one sub-policy to an image;
RandAugment (Cubuk et al. 2020), which draws operations one after the other;
TrivialAugment (Mueller and Hutter 2021), one operation at any strength.
"""
Table = Mapping[str, tuple[Tensor, bool]]
"""Magnitudes of each operation, from weak to strong, and whether a sign is drawn."""


def policy_of_torchvision(name: str) -> tuple[SubPolicy, ...]:
    """The sub-policies of one of POLICIES. Raises ScheduleError for another name."""
    if name not in POLICIES:
        raise ScheduleError(unknown("name", name, POLICIES))
    return policy_of_transform(POLICIES[name])


def policy_of_transform(
    transform: AutoAugment | RandAugment | TrivialAugmentWide,
) -> tuple[SubPolicy, ...]:
    """The sub-policies of one of torchvision's transforms."""
    side = (PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE)
    if isinstance(transform, AutoAugment):
        table = transform._augmentation_space(
            10, side
        )  # Torchvision does not name its number of magnitudes.
        return tuple(
            SubPolicy(
                tuple(
                    tuple(_choices(table, operation, chance, number))
                    for operation, chance, number in sub_policy
                )
            )
            for sub_policy in transform.policies
        )
    n_bins = transform.num_magnitude_bins
    if isinstance(transform, RandAugment):
        any_of = _any_of(
            transform._augmentation_space(n_bins, side), [transform.magnitude]
        )
        return (SubPolicy((any_of,) * transform.num_ops),)
    return (
        SubPolicy((_any_of(transform._augmentation_space(n_bins), range(n_bins)),)),
    )


def _any_of(table: Table, numbers: Sequence[int]) -> tuple[Choice, ...]:
    """Choices among all operations, equally likely, and among the numbered magnitudes,
    equally likely.
    """
    chance = 1 / len(table) / len(numbers)
    return tuple(
        choice
        for name in table
        for number in numbers
        for choice in _choices(table, name, chance, number)
    )


def _choices(
    table: Table, name: str, chance: float, number: int | None
) -> Iterator[Choice]:
    """An operation at a numbered magnitude, on both sides of the identity if
    torchvision draws a sign.
    """
    if name == "Identity":
        return
    magnitudes, has_sign = table[name]
    operation = OPERATIONS[name]
    if operation.magnitude_range is None or number is None:
        yield Choice(name, chance)
        return
    magnitude = round(float(magnitudes[number]), DIGITS) / (
        PHOTOGRAPH_SIDE if name.startswith("Translate") else 1
    )
    if operation.drawing == SIGN or not has_sign:
        yield Choice(name, chance, magnitude)
    else:
        for change in (magnitude, -magnitude):
            yield Choice(
                name, chance / 2, round((operation.identity or 0.0) + change, DIGITS)
            )
