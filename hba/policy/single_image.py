"""The policy on one image: the draw of hba/policy/draw.py in plain Python.

For a single image, calls into PyTorch would cost many times as much as the image
itself.
"""

import itertools
import math
from typing import NamedTuple

import torch
from torch import Tensor

from hba.operations import Operation
from hba.policy.draw import count_limits, logits_between, mean_probabilities
from hba.policy.space import SearchSpace


class OpSample(NamedTuple):
    """An operation to apply. magnitude: with its sign, 0 without magnitude. position:
    random numbers in [0, 1).
    """

    operation: Operation
    magnitude: float
    position: tuple[float, ...]


class PlainSlot(NamedTuple):
    """A slot's magnitude, its logit in the range from low to high, and its spread; all
    0 without magnitude.
    """

    operation: Operation
    magnitude: float = 0.0
    low: float = 0.0
    high: float = 0.0
    logit: float = 0.0
    spread: float = 0.0


class PlainRow(NamedTuple):
    """A policy in plain Python numbers, computed once for all images that use it.

    probabilities: the mean probability of each slot. limits: probabilities that K is
    below 1, 2, ... walk: the slots of the walk. n_uniforms: as SearchSpace.n_uniforms.
    """

    probabilities: list[float]
    limits: list[float]
    slots: list[PlainSlot]
    is_spread: bool
    walk: slice
    n_uniforms: tuple[int, int]


def plain_row(
    space: SearchSpace, values: Tensor, spread: Tensor | None = None
) -> PlainRow:
    """Convert values and spread, (n,) on the CPU as draw_with_trace takes them, to
    plain numbers.
    """
    means = mean_probabilities(space, values, spread)
    low, high = space.bounds(values.dtype, values.device)
    widths = torch.zeros(space.n) if spread is None else spread
    columns = torch.stack(
        [means, low, high, logits_between(means, low, high), widths], dim=1
    ).tolist()
    probabilities = [columns[slot.probability][0] for slot in space.slots]
    numbers = [
        () if slot.magnitude is None else columns[slot.magnitude]
        for slot in space.slots
    ]
    slots = [
        PlainSlot(slot.operation, *own)
        for slot, own in zip(space.slots, numbers, strict=True)
    ]
    limits = count_limits(space, means).tolist()
    return PlainRow(
        probabilities,
        limits,
        slots,
        spread is not None,
        space.walk_slots,
        space.n_uniforms,
    )


def draw_for_one(
    row: PlainRow, generator: torch.Generator | None = None
) -> list[OpSample]:
    """Draw what hba's draw_with_trace draws for a batch of one image with the same
    generator on the CPU.

    Magnitudes with a spread agree up to its single precision.
    """
    walk, most, (width, other_width) = (
        range(len(row.slots))[row.walk],
        len(row.limits),
        row.n_uniforms,
    )
    others = [number for number in range(len(row.slots)) if number not in walk]
    n_numbers = 2 * len(walk) + 1 + (1 + width) * most + len(others) * (1 + other_width)
    numbers = iter(torch.rand(n_numbers, generator=generator).tolist())

    def take(count: int) -> tuple[float, ...]:
        return tuple(itertools.islice(numbers, count))

    fires, keys, (count,), signs = take(len(walk)), take(len(walk)), take(1), take(most)
    places = [take(width) for _ in range(most)]
    other_fires, other_places = take(len(others)), [take(other_width) for _ in others]
    noise = (
        torch.randn(len(others) + most, generator=generator).tolist()
        if row.is_spread
        else None
    )
    limit = sum(count >= bound for bound in row.limits)
    fired = [
        number
        for number in range(len(walk))
        if fires[number] < row.probabilities[walk[number]]
    ]
    on_walk = sorted(fired, key=keys.__getitem__)[:limit]
    # Each step: its index into the noise, the slot, whether the magnitude is negated,
    # and its random numbers.
    steps = [
        (
            walk.start + step,
            walk[number],
            row.slots[walk[number]].operation.signed and signs[step] < 0.5,
            places[step],
        )
        for step, number in enumerate(on_walk)
    ]
    for order, number in enumerate(others):
        if other_fires[order] < row.probabilities[number]:
            step = order if number < walk.start else order + most
            steps.append((step, number, False, other_places[order]))
    drawn = []
    for step, number, is_negated, position in sorted(steps):
        slot = row.slots[number]
        magnitude = slot.magnitude
        if noise is not None and slot.spread:
            # The sigmoid in terms of tanh, which does not overflow.
            share = 0.5 + 0.5 * math.tanh((slot.logit + slot.spread * noise[step]) / 2)
            magnitude = slot.low + (slot.high - slot.low) * share
        drawn.append(
            OpSample(slot.operation, -magnitude if is_negated else magnitude, position)
        )
    return drawn
