"""What a check of an exported file finds, and the images and magnitudes that it compares by."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hba.operations import Operation, color_for
from hba.schedule.schedule import Schedule

N_MAGNITUDES = 5
N_DRAWS = 20
N_OF_MEAN = 200
"""Draws of an image, whose means are compared where no draw can be made the same."""
PLACES = (0.0, 0.37, 1.0)
"""In a schedule, at which whole policies are compared."""
POSITIONS = ((0.0, 0.0), (0.3, 0.6), (0.97, 0.97))
"""In an image, of operations that have one."""
WHOLE = "whole policy"

Levels = NDArray[np.float64]
"""Grey levels in [0, 255], (H, W) or (H, W, C)."""
Draw = Callable[[], Levels]
"""An image, augmented with new random numbers at each call."""


@dataclass(frozen=True)
class Checked:
    """largest, mean: difference to hba's own result, in grey levels of 255, over images, magnitudes and draws.

    what: the name of an operation, or WHOLE. n: images that were compared; means over draws, where the other draws in
    its own way. said: how it differs, where that is known.
    """

    what: str
    n: int
    largest: float
    mean: float
    said: str = ""

    @property
    def is_exact(self) -> bool:
        return self.n > 0 and self.largest == 0

    @property
    def verdict(self) -> str:
        """exact or approximate."""
        return "exact" if self.is_exact else "approximate"


class Case(NamedTuple):
    """An operation's arguments: a PIL image, the signed magnitude, the colour in grey levels, a place in [0, 1)."""

    image: Image.Image
    magnitude: float
    color: tuple[int, ...]
    position: tuple[float, float]


def cases(operation: Operation, schedule: Schedule, images: Sequence[Image.Image]) -> Iterator[Case]:
    """Each image at several magnitudes of the operation's range, with both signs, and at several places."""
    low, high = operation.magnitude_range or (0.0, 0.0)
    n_magnitudes = N_MAGNITUDES if operation.magnitude_range else 1
    magnitudes = [float(one) for one in np.linspace(low, high, n_magnitudes)]
    signs = (1, -1) if operation.signed else (1,)
    for image in images:
        color = tuple(round(255 * one) for one in color_for(len(image.getbands()), schedule.fill))
        for magnitude in (sign * one for one in magnitudes for sign in signs):
            for position in POSITIONS if operation.uses_position else POSITIONS[:1]:
                yield Case(image, magnitude, color, position)


def compared(what: str, pairs: Iterable[tuple[Levels, Levels]], said: str = "") -> Checked:
    """Of results that should be the same, hba's and another."""
    differences = [np.abs(one.astype(float) - other.astype(float)) for one, other in pairs]
    largest = max((float(one.max(initial=0.0)) for one in differences), default=0.0)
    mean = float(np.mean([one.mean() for one in differences])) if differences else 0.0
    return Checked(what, len(differences), largest, mean, said)


def means_compared(what: str, draws: Iterable[tuple[Draw, Draw]], said: str) -> Checked:
    """Of hba's draws and another's, of which no two need be the same: the mean image of many of each.

    What is said then names how far two means of hba's own are from each other, which is what chance alone makes.
    """
    others, own = [], []
    for mine, other in draws:
        mean = _mean_image(mine)
        others.append((mean, _mean_image(other)))
        own.append((mean, _mean_image(mine)))
    found, chance = compared(what, others), compared(what, own)
    by_chance = f"means over {N_OF_MEAN} draws, of which hba's own differ by {chance.mean:.2g} on average"
    return replace(found, said=f"{said}; {by_chance}")


def _mean_image(draw: Draw) -> Levels:
    total = np.asarray(draw(), dtype=float)
    for _ in range(N_OF_MEAN - 1):
        total = total + draw()
    return total / N_OF_MEAN
