"""Applying a draw: in each step every image of a batch gets an operation of its own.

    symbol       meaning                                                       shape
    chosen       index into the operations for each step, -1 for none          (B, S)
    magnitudes   of the operation that an image gets                           (B, S)
    positions    where operations that need a place put it, in [0, 1)          (B, S, 2)

On a CPU an operation computes its own images only. Elsewhere, and in a compiled program, shapes must not depend on
what was drawn, so that the host never waits for the device: operations of a kind then share one pass over the batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hba.operations.enhance import Blend, blend
from hba.operations.geometric import INTERPOLATIONS, Warp, identity_coefficients, stack_coefficients, warp
from hba.operations.operation import Operation
from hba.operations.point import N_LEVELS, Curve, Stretch, every_level, look_up, to_levels

PART_VALUES = 1 << 19
"""How many numbers of a batch are worked on at once: with their temporaries they stay in the processor's cache."""


class Steps(NamedTuple):
    """What is done to each of B images in S steps; see the head of this file."""

    chosen: Tensor
    magnitudes: Tensor
    positions: Tensor


class Step(NamedTuple):
    """One operation for each of B images: chosen (B,), magnitude (B,), position (B, 2), and its map (B, 6)."""

    chosen: Tensor
    magnitude: Tensor
    position: Tensor
    maps: Tensor

    def select(self, images: Tensor) -> "Step":
        """The step for some of the images, in the order of their numbers (N,)."""
        return Step(*(values.index_select(0, images) for values in self))

    def split(self, counts: int | list[int]) -> "list[Step]":
        """The step for the first so many images, for the next so many, ...; a single count is that of each part."""
        return [Step(*parts) for parts in zip(*(values.split(counts) for values in self), strict=True)]


def apply_steps(operations: Sequence[Operation], steps: Steps, images: Tensor, fill: Tensor) -> Tensor:
    """New images (B, C, H, W); those that get no operation are as they were. The input is not changed."""
    maps = _maps(operations, steps, *images.shape[2:])
    one_by_one = [Step(*(values[:, step] for values in (*steps, maps))) for step in range(steps.chosen.shape[1])]
    if images.device.type != "cpu" or torch.compiler.is_compiling():
        return apply_in_fixed_shapes(operations, one_by_one, images, fill)
    if not len(images):
        return images.clone()
    result = torch.empty_like(images)
    n_images = max(1, PART_VALUES // max(1, images[0].numel()))
    parts = zip(
        images.split(n_images), result.split(n_images), *(step.split(n_images) for step in one_by_one), strict=True
    )
    for part, part_result, *part_steps in parts:
        apply_to_own_images(operations, part_steps, part, fill, part_result)
    return result


def _maps(operations: Sequence[Operation], steps: Steps, height: int, width: int) -> Tensor:
    """The affine map of every image in every step, (B, S, 6); the identity where no pixel is moved."""
    chosen, magnitude = steps.chosen.flatten(), steps.magnitudes.flatten().double()
    coefficients = identity_coefficients(magnitude)
    for index, operation in enumerate(operations):
        if isinstance(operation.function, Warp):
            own = operation.function.coefficients(magnitude, height, width)
            is_chosen = chosen == index
            coefficients |= {name: torch.where(is_chosen, own[name], coefficients[name]) for name in own}
    return stack_coefficients(coefficients).view(*steps.chosen.shape, 6)


def apply_to_own_images(
    operations: Sequence[Operation], steps: Sequence[Step], images: Tensor, fill: Tensor, result: Tensor
) -> None:
    """Images are sorted by what they get, so that each operation sees a batch of its own. Least work."""
    groups = _groups(operations)
    group_of_operation = torch.tensor(_group_numbers(groups, len(operations)))
    row_of_image = torch.arange(len(images))
    for step in steps:
        group_of_image = group_of_operation[step.chosen]
        order = group_of_image.argsort(stable=True)
        counts = group_of_image.bincount(minlength=len(groups) + 1).tolist()
        parts = images.index_select(0, row_of_image[order]).split(counts)
        own_steps = step.select(order).split(counts)
        images = torch.cat(
            [
                _apply_group(group, own_step, part, fill)
                for group, own_step, part in zip((*groups, None), own_steps, parts, strict=True)
                if len(part)
            ]
        )
        row_of_image = order.argsort()
    torch.index_select(images, 0, row_of_image, out=result)


class _Group(NamedTuple):
    """Operations by their indices that are computed in one go: all that move pixels alike, or a single other one."""

    indices: list[int]
    interpolation: str | None
    operation: Operation


def _groups(operations: Sequence[Operation]) -> list[_Group]:
    warps: dict[str, _Group] = {}
    others: list[_Group] = []
    for index, operation in enumerate(operations):
        if operation.interpolation is None:
            others.append(_Group([index], None, operation))
        else:
            warps.setdefault(operation.interpolation, _Group([], operation.interpolation, operation)).indices.append(
                index
            )
    return [*warps.values(), *others]


def _group_numbers(groups: list[_Group], n_operations: int) -> list[int]:
    """The group of each operation; the last entry, which -1 finds, is that of no operation."""
    numbers = [len(groups)] * (n_operations + 1)
    for number, group in enumerate(groups):
        for index in group.indices:
            numbers[index] = number
    return numbers


def _apply_group(group: _Group | None, step: Step, images: Tensor, fill: Tensor) -> Tensor:
    """Images that each get an operation of the group, None for no operation."""
    if group is None:
        return images
    if group.interpolation is not None:
        return warp(images, step.maps, fill, group.interpolation)
    return group.operation(images, step.magnitude, fill=fill, position=step.position)


def apply_in_fixed_shapes(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    """Every kind of operation computes the whole batch. More work, but nothing on the host depends on the draw."""
    result = images
    for step in steps:
        picks = [_pick(operation, index, step) for index, operation in enumerate(operations)]
        result = _warp_all(picks, step.maps, result, fill)
        result = _look_up_all(picks, result)
        result = _blend_all(picks, result)
        for pick in picks:
            if not isinstance(pick.operation.function, Warp | Curve | Stretch | Blend):
                own = pick.operation(result, *pick.magnitude, fill=fill, position=step.position)
                result = torch.where(_any([pick]), own, result)
    return result.clone() if result is images else result


class _Pick(NamedTuple):
    """An operation, which images get it (B,), and its magnitude for every image ((B,),), () where it has none."""

    operation: Operation
    images: Tensor
    magnitude: tuple[Tensor, ...]


def _pick(operation: Operation, index: int, step: Step) -> _Pick:
    images = step.chosen == index
    if operation.magnitude_range is None:
        return _Pick(operation, images, ())
    # An image that gets another operation has a magnitude that this one may not be able to take.
    return _Pick(operation, images, (torch.where(images, step.magnitude, operation.magnitude_range[0]),))


def _warp_all(picks: list[_Pick], maps: Tensor, images: Tensor, fill: Tensor) -> Tensor:
    """A single resampling. Images that get another operation have a map that changes nothing."""
    for interpolation in INTERPOLATIONS:
        moved = [pick for pick in picks if pick.operation.interpolation == interpolation]
        if moved:
            images = torch.where(_any(moved), warp(images, maps, fill, interpolation), images)
    return images


def _look_up_all(picks: list[_Pick], images: Tensor) -> Tensor:
    """One table per image and channel, and a single look-up."""
    levels = to_levels(images)
    tables = every_level(images)
    changed = []
    for pick in picks:
        function = pick.operation.function
        if isinstance(function, Curve | Stretch):
            tables = torch.where(pick.images[:, None, None], function.tables(levels, *pick.magnitude), tables)
            changed.append(pick)
    if not changed:
        return images
    return torch.where(_any(changed), look_up(tables.expand(*images.shape[:2], N_LEVELS), levels), images)


def _blend_all(picks: list[_Pick], images: Tensor) -> Tensor:
    """One poorer version and one factor per image, and a single blend."""
    poorer, factor = images, images.new_ones(len(images))
    changed = []
    for pick in picks:
        function = pick.operation.function
        if isinstance(function, Blend):
            poorer = torch.where(pick.images[:, None, None, None], function.poorer(images), poorer)
            factor = torch.where(pick.images, pick.magnitude[0], factor)
            changed.append(pick)
    return torch.where(_any(changed), blend(poorer, images, factor), images) if changed else images


def _any(picks: list[_Pick]) -> Tensor:
    """Which images get one of these, (B, 1, 1, 1)."""
    return torch.stack([pick.images for pick in picks]).any(dim=0)[:, None, None, None]
