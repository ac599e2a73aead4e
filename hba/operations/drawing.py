"""How the magnitude of an image is drawn from the magnitude of a policy.

Convention:
    identity is the magnitude that changes nothing; `number` is uniform in [0, 1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

# Exported files contain the rest of this module.

Number = TypeVar("Number", float, "Tensor")

FIXED = "fixed"
"""Every image gets the magnitude of the policy."""
SIGN = "sign"
"""It is negated for half of the images."""
AROUND = "around"
"""U(identity - magnitude, identity + magnitude)."""
UP_TO = "up to"
"""U(identity, magnitude)."""
DRAWINGS = (FIXED, SIGN, AROUND, UP_TO)


def draw_magnitude(
    drawing: str, identity: Number, magnitude: Number, number: Number
) -> Number:
    """The magnitude of an image, or the magnitudes of a batch.

    Args:
        drawing: One of DRAWINGS.
        identity: Of the operation; used by AROUND and UP_TO.
        magnitude: Of the policy.
        number: The random number, uniform in [0, 1).
    """
    if drawing == SIGN:
        return magnitude * (1 - 2 * (number < 0.5))
    if drawing == AROUND:
        return identity + magnitude * (2 * number - 1)
    if drawing == UP_TO:
        return identity + (magnitude - identity) * number
    return magnitude
