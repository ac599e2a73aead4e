"""A policy of a space in the plain numbers of the player."""

import torch
from torch import Tensor

from hba.policy.draw import count_limits, mean_probabilities
from hba.policy.player import PlainRow, PlainSlot, logits_between
from hba.policy.space import SearchSpace


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
