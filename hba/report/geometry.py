"""Where things stand in a plot, in per cent of its width and height, and paths of SVG made of that.

A plot is drawn into the square of 100 by 100 and stretched to its place; y goes down, as in SVG. Lines keep their
width, and what has no length is drawn as a dot.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

MOST_POINTS = 120
"""Of a curve; more are not seen."""
DOT = "h0.01"
LEAST = 1e-6
"""The highest value of a scale from zero; less is nothing."""

Numbers = Sequence[float] | np.ndarray


@dataclass(frozen=True)
class Scale:
    """From low to high, in the unit of the data. steps: round numbers that are told beside it."""

    low: float
    high: float
    steps: tuple[float, ...] = ()

    def share(self, value: float) -> float:
        """Per cent of the way, rounded to what a screen can show."""
        width = self.high - self.low
        return round(100 * (value - self.low) / width, 2) if width else 50.0


@dataclass(frozen=True)
class Axes:
    """x from left to right, y from bottom to top."""

    x: Scale
    y: Scale

    def line(self, xs: Numbers, ys: Numbers) -> str:
        """A dot where there is one point only."""
        points = [self._point(x, y) for x, y in zip(xs, ys, strict=True)]
        return f"M{'L'.join(points)}" if len(points) > 1 else "".join(f"M{point}{DOT}" for point in points)

    def dots(self, xs: Numbers, ys: Numbers) -> str:
        return "".join(f"M{self._point(x, y)}{DOT}" for x, y in zip(xs, ys, strict=True))

    def area(self, xs: Numbers, lower: Numbers, upper: Numbers) -> str:
        """What lies between two lines; of one point, a bar over the whole width."""
        if len(xs) == 1:
            xs, lower, upper = (self.x.low, self.x.high), (lower[0],) * 2, (upper[0],) * 2
            if self.x.low == self.x.high:
                top, bottom = 100 - self.y.share(upper[0]), 100 - self.y.share(lower[0])
                return f"M0,{bottom:g}L0,{top:g}L100,{top:g}L100,{bottom:g}Z"
        there = [self._point(x, y) for x, y in zip(xs, upper, strict=True)]
        back = [self._point(x, y) for x, y in zip(xs, lower, strict=True)]
        return f"M{'L'.join([*there, *reversed(back)])}Z"

    def _point(self, x: float, y: float) -> str:
        return f"{self.x.share(x):g},{round(100 - self.y.share(y), 2):g}"


@dataclass(frozen=True)
class Tick:
    """at: per cent from the left, or from the top."""

    at: float
    text: str


def epochs_scale(epochs: int) -> Scale:
    return Scale(1, epochs)


def some_of(count: int, most: int = MOST_POINTS) -> list[int]:
    """At most so many of the indices 0 to count - 1, evenly spread, the first and the last among them."""
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist()


def from_zero(highest: float) -> Scale:
    """To the first step that is not below the highest value."""
    return around(0.0, max(highest, LEAST))


def around(lowest: float, highest: float) -> Scale:
    """From step to step, so that both values have their place."""
    # Loading it takes a while.
    from matplotlib.ticker import MaxNLocator

    found = MaxNLocator(4, steps=[1, 2, 2.5, 5, 10]).tick_values(lowest, highest)
    # Sums of binary fractions, as 0.30000000000000004.
    steps = tuple(float(f"{step:.12g}") for step in found)
    return Scale(steps[0], steps[-1], steps)


def y_ticks(scale: Scale) -> list[Tick]:
    return [Tick(100 - scale.share(value), f"{value:g}") for value in scale.steps]


def x_ticks(scale: Scale) -> list[Tick]:
    return [Tick(scale.share(value), f"{value:g}") for value in scale.steps]


def epoch_ticks(epochs: int) -> list[Tick]:
    """The first, the middle and the last."""
    scale = epochs_scale(epochs)
    return [Tick(scale.share(epoch), f"{epoch}") for epoch in sorted({1, epochs // 2 + 1, epochs})]


def kept_apart(places: Sequence[float], gap: float) -> list[float]:
    """Places in [0, 100], moved as far as they must be at least `gap` apart, and never past an end while there is room.

    Their order stays.
    """
    order = sorted(range(len(places)), key=lambda index: places[index])
    moved = [places[index] for index in order]
    for number in range(1, len(moved)):
        moved[number] = max(moved[number], moved[number - 1] + gap)
    ceiling = 100.0
    for number in reversed(range(len(moved))):
        moved[number] = max(0.0, min(moved[number], ceiling))
        ceiling = moved[number] - gap
    return [round(moved[order.index(index)], 2) for index in range(len(places))]
