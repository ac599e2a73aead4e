"""torchvision's published policies, with the numbers of the torchvision that is installed.

torchvision draws whether a magnitude is negated, for the enhancers too: half of their factors are above 1, half below.
AutoAugment and RandAugment shift by shares of the side; TrivialAugment shifts by up to 32 pixels, which are taken as a
share of PHOTOGRAPH_SIDE.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from types import MappingProxyType

from torch import Tensor
from torchvision.transforms import AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide

from hba.importers.fit import Choice, Step, SubPolicy
from hba.operations import OPERATIONS

PHOTOGRAPH_SIDE = 224
"""Pixels of the side of a photograph, of which TrivialAugment's shifts of up to 32 pixels are a share."""
AUTO_AUGMENT_BINS = 10
"""Of its magnitudes; torchvision has no name for the number."""
DOES_NOTHING = "Identity"
DIGITS = 6
"""Of magnitudes in single precision."""

Table = Mapping[str, tuple[Tensor, bool]]
"""By operation, its magnitudes, from weak to strong, and whether a sign is drawn."""


def auto_augment(policy: AutoAugmentPolicy) -> tuple[SubPolicy, ...]:
    """AutoAugment (Cubuk et al. 2019): an image gets one of the sub-policies."""
    transform = AutoAugment(policy)
    table = transform._augmentation_space(AUTO_AUGMENT_BINS, (PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE))
    return tuple(
        SubPolicy(tuple(tuple(_choices(table, name, chance, number)) for name, chance, number in sub_policy))
        for sub_policy in transform.policies
    )


def rand_augment() -> tuple[SubPolicy, ...]:
    """RandAugment (Cubuk et al. 2020) with torchvision's defaults: operations drawn one after the other."""
    transform = RandAugment()
    table = transform._augmentation_space(transform.num_magnitude_bins, (PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE))
    return (SubPolicy((_any_of(table, [transform.magnitude]),) * transform.num_ops),)


def trivial_augment() -> tuple[SubPolicy, ...]:
    """TrivialAugment (Mueller and Hutter 2021): one operation at any strength."""
    transform = TrivialAugmentWide()
    n_bins = transform.num_magnitude_bins
    return (SubPolicy((_any_of(transform._augmentation_space(n_bins), list(range(n_bins))),)),)


def _any_of(table: Table, numbers: list[int]) -> Step:
    """All operations are equally likely, and so are the numbered magnitudes."""
    chance = 1 / len(table) / len(numbers)
    return tuple(choice for name in table for number in numbers for choice in _choices(table, name, chance, number))


def _choices(table: Table, name: str, chance: float, number: int | None) -> Iterator[Choice]:
    """An operation at a numbered magnitude, on both sides of the identity where torchvision draws a sign."""
    if name == DOES_NOTHING:
        return
    magnitudes, has_sign = table[name]
    operation = OPERATIONS[name]
    if operation.magnitude_range is None or number is None:
        yield Choice(name, chance)
        return
    magnitude = round(float(magnitudes[number]), DIGITS)
    if name.startswith("Translate"):
        magnitude /= PHOTOGRAPH_SIDE
    if operation.signed or not has_sign:
        yield Choice(name, chance, magnitude)
        return
    assert operation.identity is not None
    for change in (magnitude, -magnitude):
        yield Choice(name, chance / 2, round(operation.identity + change, DIGITS))


POLICIES: Mapping[str, Callable[[], tuple[SubPolicy, ...]]] = MappingProxyType(
    {
        **{f"autoaugment-{policy.value}": partial(auto_augment, policy) for policy in AutoAugmentPolicy},
        "randaugment": rand_augment,
        "trivialaugment": trivial_augment,
    }
)
"""By name."""
