"""Draws, for each image of a batch, which slots act on it and with which random
numbers.

hba's policies on batches and files for kornia use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from hba.operations.drawing import DRAWINGS, draw_magnitude
from hba.utils.tensors import whole_numbers

# Exported files contain the rest of this module.


class SlotDraw(NamedTuple):
    """The slots of B images in S steps: one for each slot before the walk, those of the
    walk, and one for each slot after it.

    Attributes:
        slots: (B, S), also of steps that do nothing.
        applied: Whether the slot of a step acts, bool (B, S).
        numbers: The random numbers in [0, 1) that magnitudes are drawn by, (B, S).
        positions: Further random numbers in [0, 1), (B, S, P).
        visited: Which of all slots each image has visited, bool (B, n_slots). Slots of
            the walk are visited in random order until K have fired, all others always.
        fires: Which of all slots would fire, bool (B, n_slots).
        limit: K, (B, 1).
    """

    slots: Tensor
    applied: Tensor
    numbers: Tensor
    positions: Tensor
    visited: Tensor
    fires: Tensor
    limit: Tensor


def draw_slots(
    probabilities: Tensor,
    limits: Tensor,
    walk: slice,
    n_uniforms: tuple[int, int],
    batch_size: int,
    generator: torch.Generator | None = None,
) -> SlotDraw:
    """Draw K for each image, then visit the slots of the walk in random order; the
    first K that fire are applied in that order. Every other slot fires independently.

    Args:
        probabilities: Of all slots, (n_slots,) or (B, n_slots).
        limits: Probabilities that K is below 1, 2, ..., (max_count,) or (B, max_count).
        walk: The slots of the walk.
        n_uniforms: Random numbers of a step of the walk, and of another step.
        batch_size: B.
        generator: Of the device of the tensors; None is torch's default one.
    """
    device = probabilities.device
    n_slots = probabilities.shape[-1]
    n_walk = walk.stop - walk.start
    n_others = n_slots - n_walk
    n_steps = limits.shape[-1]
    n_numbers, n_other_numbers = n_uniforms

    def uniform(*shape: int) -> Tensor:
        return random_numbers(torch.rand, generator, batch_size, *shape, device=device)

    fires = uniform(n_walk) < probabilities[..., walk]
    # Random keys put the slots in a uniformly random order; slots that do not fire come
    # last.
    place = uniform(n_walk)
    key = torch.where(fires, place, 2.0)
    keys, slots = key.topk(n_steps, dim=1, largest=False, sorted=True)
    reached = keys <= 1
    limit = (uniform(1) >= limits).sum(dim=1, keepdim=True)
    applied = reached & (whole_numbers(n_steps, torch.int64, device) < limit)
    numbers = uniform(n_steps)
    positions = uniform(n_steps, n_numbers)
    # Visiting ends at the K-th slot that fires: at once for K = 0, never if fewer fire.
    last = torch.cat([keys.new_full((batch_size, 1), -1.0), keys], dim=1).gather(
        1, limit
    )
    visited = place <= last
    if not n_others:
        return SlotDraw(slots, applied, numbers, positions, visited, fires, limit)
    other_slots = without_walk(whole_numbers(n_slots, torch.int64, device), walk)
    other_slots = other_slots.expand(batch_size, -1)
    other_fires = uniform(n_others) < without_walk(probabilities, walk)
    other_positions = uniform(n_others, n_other_numbers)
    other_numbers = uniform(n_others)

    def around(of_others: Tensor, of_walk: Tensor) -> Tensor:
        first = walk.start
        return torch.cat([of_others[:, :first], of_walk, of_others[:, first:]], dim=1)

    widest = max(n_numbers, n_other_numbers)
    return SlotDraw(
        slots=around(other_slots, slots + walk.start),
        applied=around(other_fires, applied),
        numbers=around(other_numbers, numbers),
        positions=around(
            pad(other_positions, (0, widest - n_other_numbers)),
            pad(positions, (0, widest - n_numbers)),
        ),
        visited=around(other_slots >= 0, visited),
        fires=around(other_fires, fires),
        limit=limit,
    )


def move_classes(
    drawn: SlotDraw, labels: Tensor | None, results: Mapping[int, Tensor]
) -> tuple[SlotDraw, Tensor | None]:
    """Leave out moves to which the class of an image has no answer, and return the
    labels of the moved images.

    Args:
        drawn: The draw for B images.
        labels: Labels of the images, int64 (B,); None if they are unknown. Then only
            moves that keep every class are applied.
        results: For some steps before the walk, the labels of moved images, int64
            (moves, classes), -1 for a class whose images must not be moved.
    """
    columns = list(drawn.applied.unbind(1))
    for step, of_moves in results.items():
        n_moves, n_classes = of_moves.shape
        move = (drawn.positions[:, step, 0] * n_moves).long().clamp(max=n_moves - 1)
        if labels is None:
            same = whole_numbers(n_classes, torch.int64, of_moves.device)
            columns[step] = columns[step] & (of_moves == same).all(dim=1)[move]
            continue
        moved = of_moves[move, labels]
        columns[step] = columns[step] & (moved >= 0)
        labels = torch.where(columns[step], moved, labels)
    return drawn._replace(applied=torch.stack(columns, dim=1)), labels


def draw_magnitudes(
    magnitudes: Tensor,
    numbers: Tensor,
    drawing: Tensor,
    identity: Tensor,
    drawings: Iterable[str] = DRAWINGS,
) -> Tensor:
    """The magnitudes of images, from those of the policy; all arguments (B, S).

    Args:
        magnitudes: Of the policy, for the slot of each step.
        numbers: Of SlotDraw.
        drawing: The index in DRAWINGS of how each is drawn.
        identity: The identity of the operation of each; 0 without one.
        drawings: Those of DRAWINGS that occur.
    """
    result = magnitudes
    for name in drawings:
        candidates = draw_magnitude(name, identity, magnitudes, numbers)
        result = torch.where(drawing == DRAWINGS.index(name), candidates, result)
    return result


def without_walk(values: Tensor, walk: slice) -> Tensor:
    """Values (..., n_slots) of the slots that are not on the walk."""
    return torch.cat([values[..., : walk.start], values[..., walk.stop :]], dim=-1)


def random_numbers(
    make: Callable[..., Tensor],
    generator: torch.Generator | None,
    *shape: int,
    **options: Any,
) -> Tensor:
    """Random numbers for all images, by torch.rand or torch.randn."""
    # A compiler refuses the generator argument, even if it is None.
    if generator is None:
        return make(*shape, **options)
    return make(*shape, generator=generator, **options)
