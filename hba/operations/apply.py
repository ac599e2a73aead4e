"""Applies operations to a batch: in each step, every image gets one operation or none.

On a CPU, each operation computes only the images that get it, which is the least work.
On other devices, and in a compiled program, shapes do not depend on the draw: each
group of operations computes the whole batch once. This is more work, but the host never
waits for the device, and a CUDA graph can capture a step.
"""

from collections.abc import Collection, Container, Iterable, Sequence
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations.color import (
    LUMA_WEIGHTS,
    N_LEVELS,
    blend,
    every_level,
    look_up,
    to_levels,
)
from hba.operations.geometric import Maps, coefficients_of, identity_coefficients, warp
from hba.operations.image_operation import INTERPOLATIONS
from hba.operations.operation import Operation
from hba.utils.tensors import device_constant, whole_numbers

PART_VALUES = 1 << 19
"""How many numbers of a batch to process at once; with temporaries, they fit into the
processor's cache.
"""
LARGE_IMAGE_VALUES = 1 << 17
"""An image of at least this many numbers is processed alone: sorting it would cost more
than a batch saves.
"""
SHARED = {
    "nearest": "nearest",
    "bilinear": "bilinear",
    "curve": "levels",
    "stretch": "levels",
    "blend": "blend",
}
"""By kernel. Operations with equal entries share one computation for the whole batch.
"""

Steps = tuple[Tensor, Tensor, Tensor]
"""chosen (B, S), magnitudes (B, S) and positions (B, S, P) of all images."""
Candidates = Sequence[Collection[int]] | None
"""For each step, the indices of the operations that can be chosen; None for all."""


class Step(NamedTuple):
    """One operation for each of B images.

    chosen (B,): index into the operations, -1 for none. magnitude (B,): of that
    operation, with its sign. position (B, P): its random numbers in [0, 1), such as a
    place in width and height. Maps are the identity without a move.
    """

    chosen: Tensor
    magnitude: Tensor
    position: Tensor
    exact_maps: Tensor
    fixed_point_maps: Tensor

    @property
    def maps(self) -> Maps:
        return Maps(self.exact_maps, self.fixed_point_maps)

    def select(self, images: Tensor) -> "Step":
        """The step for some of the images, given by their indices (N,)."""
        return Step(*(values.index_select(0, images) for values in self))

    def split(self, counts: int | list[int]) -> "list[Step]":
        """Split the step into consecutive parts with these numbers of images; a single
        number is for every part.
        """
        return [
            Step(*parts)
            for parts in zip(*(values.split(counts) for values in self), strict=True)
        ]


@torch.no_grad()
def apply_steps(
    operations: Sequence[Operation],
    steps: Steps,
    images: Tensor,
    fill: Tensor,
    candidates: Candidates = None,
) -> Tensor:
    """Return new images (B, C, H, W) after S steps, without gradients. Does not change
    its input.

    steps: chosen (B, S), indices of operations, -1 for none; magnitudes (B, S) and
    positions (B, S, P). fill: (C,).
    """
    if not images.numel():
        return images.clone()
    unbound = (
        values.unbind(1)
        for values in (*steps, *maps_of_steps(operations, *steps, *images.shape[2:]))
    )
    each = [Step(*values) for values in zip(*unbound, strict=True)]
    if needs_fixed_shapes(images):
        of_steps = candidates or [range(len(operations))] * len(each)
        curves = _curve_tables(
            operations, steps, images, fill, {*chain(*of_steps)}
        ).unbind(1)
        return _apply_in_fixed_shapes(
            operations, [*zip(each, curves, of_steps, strict=True)], images, fill
        )
    return _apply_to_subsets(operations, each, images, fill)


def needs_fixed_shapes(images: Tensor) -> bool:
    """Whether shapes must not depend on the draw: on a GPU or in a compiled program."""
    return images.device.type != "cpu" or torch.compiler.is_compiling()


def maps_of_steps(
    operations: Sequence[Operation],
    chosen: Tensor,
    magnitudes: Tensor,
    positions: Tensor,
    height: int,
    width: int,
) -> Maps:
    """The affine map of every image in every step, (B, S); the identity if the step
    moves no pixels.
    """
    magnitude = magnitudes.double()
    gets = _who_gets(operations, chosen)
    coefficients = identity_coefficients(magnitude)
    for index, operation in enumerate(operations):
        if operation.interpolation:
            of_operation = coefficients_of(
                operation, magnitude, positions, height, width
            )
            coefficients |= {
                name: torch.where(
                    gets[..., index], of_operation[name], coefficients[name]
                )
                for name in of_operation
            }
    return Maps.of(coefficients)


def _who_gets(operations: Sequence[Operation], chosen: Tensor) -> Tensor:
    """Which images get which operation, bool (..., operations), from `chosen` (...)."""
    return chosen[..., None] == whole_numbers(
        len(operations), chosen.dtype, chosen.device
    )


def _apply_to_subsets(
    operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor
) -> Tensor:
    """Process images with at least one pixel in parts of the batch. Steps have all
    maps, so one call does all moves.
    """
    groups = _groups(operations, INTERPOLATIONS, range(len(operations)))
    firsts = [*(operations[group[0]] for group in groups), None]
    number_of = {
        index: number for number, group in enumerate(groups) for index in group
    }
    # The last entry, which an index of -1 selects, means no operation.
    numbers = torch.tensor(
        [*(number_of[index] for index in range(len(operations))), len(groups)]
    )
    steps = [step._replace(chosen=numbers[step.chosen]) for step in steps]
    values_per_image = images[0].numel()
    n_images = (
        1 if values_per_image >= LARGE_IMAGE_VALUES else PART_VALUES // values_per_image
    )
    result = torch.empty_like(images)
    for part, part_result, *part_steps in zip(
        images.split(n_images),
        result.split(n_images),
        *(step.split(n_images) for step in steps),
        strict=True,
    ):
        _apply_to_part(firsts, part_steps, part, fill, part_result)
    return result


def _apply_to_part(
    groups: Sequence[Operation | None],
    steps: Sequence[Step],
    images: Tensor,
    fill: Tensor,
    result: Tensor,
) -> None:
    """Sort the images by group, so that each group computes one batch.

    groups: one operation of each group, None for no operation. In these steps, `chosen`
    is the number of a group. order: for each image of the sorted batch, its index in
    the part; None before any sorting.
    """
    order: Tensor | None = None
    for step in steps:
        counts = step.chosen.bincount(minlength=len(groups)).tolist()
        if max(counts) == len(images):
            sorted_step = step if order is None else step.select(order)
            images = _apply_group(
                groups[counts.index(len(images))], images, sorted_step, fill
            )
        else:
            row_of_image = None if order is None else order.argsort()
            order = step.chosen.argsort(stable=True)
            sorted_images = images.index_select(
                0, order if row_of_image is None else row_of_image[order]
            )
            parts = zip(
                groups,
                sorted_images.split(counts),
                step.select(order).split(counts),
                strict=True,
            )
            images = torch.cat(
                [_apply_group(*part, fill) for part in parts if len(part[1])]
            )
    if order is None:
        result.copy_(images)
    else:
        torch.index_select(images, 0, order.argsort(), out=result)


def _apply_group(
    operation: Operation | None, images: Tensor, step: Step, fill: Tensor
) -> Tensor:
    """Return new images from those that get an operation of the group; `operation` is
    one of the group.
    """
    if operation is None:
        return images
    if operation.interpolation:
        return warp(images, step.maps, fill, operation.interpolation)
    return operation.compute(images, step.magnitude, fill, step.position)


def _groups(
    operations: Sequence[Operation], kernels: Container[str], indices: Iterable[int]
) -> list[list[int]]:
    """Indices of operations to compute together: those with one of the kernels and
    equal entries in SHARED.
    """
    groups: dict[str | int, list[int]] = {}
    for index in indices:
        kernel = operations[index].kernel
        groups.setdefault(SHARED[kernel] if kernel in kernels else index, []).append(
            index
        )
    return list(groups.values())


def _curve_tables(
    operations: Sequence[Operation],
    steps: Steps,
    images: Tensor,
    fill: Tensor,
    used: Container[int],
) -> Tensor:
    """The new levels of each image in every step by formulas, (B, S, 1, 256); the
    levels themselves without one.
    """
    chosen, magnitudes, positions = (values.flatten(0, 1) for values in steps)
    every = every_level(images)
    tables = every.expand(len(chosen), 1, -1)
    for index, operation in enumerate(operations):
        if operation.kernel == "curve" and index in used:
            arguments = operation.arguments(magnitudes, fill, positions)
            new = operation.function(every.repeat(len(chosen), 1, 1), *arguments)
            tables = new.where((chosen == index)[:, None, None], tables)
    return tables.unflatten(0, steps[0].shape)


def _apply_in_fixed_shapes(
    operations: Sequence[Operation],
    steps: list[tuple[Step, Tensor, Collection[int]]],
    images: Tensor,
    fill: Tensor,
) -> Tensor:
    """steps: each with the table of every image by formulas (B, 1, 256), and the
    operations that can be chosen.
    """
    result = images
    for step, tables, indices in steps:
        gets = _who_gets(operations, step.chosen)
        for group in _groups(operations, SHARED, indices):
            chosen = [(operations[index], gets[:, index]) for index in group]
            # Operations of a group are neighbours, unless a space orders them
            # otherwise.
            is_range = len(group) == 1 + group[-1] - group[0]
            of_group = (
                gets[:, group[0] : 1 + group[-1]]
                if is_range
                else torch.stack([one for _, one in chosen], dim=1)
            )
            is_chosen = of_group.any(dim=1)
            together = _apply_together(chosen, is_chosen, tables, result, step, fill)
            result = torch.where(is_chosen[:, None, None, None], together, result)
    return result.clone() if result is images else result


def _apply_together(
    group: list[tuple[Operation, Tensor]],
    is_chosen: Tensor,
    tables: Tensor,
    images: Tensor,
    step: Step,
    fill: Tensor,
) -> Tensor:
    """Return new images for a whole batch; the caller ignores those of images that get
    none of the group.

    group: its operations, and which images (B,) get each. is_chosen (B,): any of them.
    tables (B, 1, 256): by formulas.
    """
    (first, _), *others = group
    magnitude = step.magnitude
    if first.interpolation:
        return warp(images, step.maps, fill, first.interpolation)
    if first.kernel == "blend":
        # One poorer version per image, and one blend.
        poorer = first.function(images)
        for operation, chosen in others:
            poorer = operation.function(images).where(
                chosen[:, None, None, None], poorer
            )
        return blend(poorer, images, magnitude)
    if first.kernel in SHARED:
        # One table per image and channel, and one look-up.
        levels = to_levels(images)
        for operation, chosen in group:
            if operation.kernel == "stretch":
                new = operation.function(
                    levels, *operation.arguments(magnitude, fill, step.position)
                )
                tables = new.where(chosen[:, None, None], tables)
        return look_up(tables.expand(*images.shape[:2], N_LEVELS), levels)
    if first.magnitude_range is not None:
        # A user's function may not accept magnitudes of other operations.
        accepted = first.draw_magnitude(first.magnitude_range[0], 1.0)
        magnitude = torch.where(is_chosen, magnitude, accepted)
    return first.compute(images, magnitude, fill, step.position)


def color_for(n_channels: int, color: tuple[float, ...]) -> tuple[float, ...]:
    """A colour with one number per channel: a single number is repeated; RGB becomes
    luma for grey images.

    Raises SettingsError if the colour has any other number of entries.
    """
    if len(color) == 3 and n_channels == 1:
        # Rounded, because the sum of weights may be less than 1, which would turn 127.5
        # grey levels into 127.
        luma = sum(
            weight * value for weight, value in zip(LUMA_WEIGHTS, color, strict=True)
        )
        return (round(luma, 6),)
    if len(color) not in (1, n_channels):
        rule = (
            f"a fill of {len(color)} numbers needs images with {len(color)} channels,"
            f" got {n_channels}"
        )
        raise SettingsError(
            f"{rule}; give one number for all channels, or one for each"
        )
    return color * n_channels if len(color) == 1 else color


def fill_for(images: Tensor, color: tuple[float, ...]) -> Tensor:
    """The colour, in [0, 1], as a tensor (C,) for these images (B, C, H, W); float32
    for uint8 images.
    """
    dtype = images.dtype if images.is_floating_point() else torch.float32
    return _color_tensor(color_for(images.shape[1], color), dtype, images.device)


@device_constant
def _color_tensor(
    color: tuple[float, ...], dtype: torch.dtype, device: torch.device
) -> Tensor:
    return torch.tensor(color, dtype=dtype, device=device)
