"""Applies operations to a batch: in each step every image gets one operation, or none.

On a CPU each operation computes only the images that get it, which is least work. On other devices, and in a compiled
program, shapes do not depend on what was drawn: each group of operations computes the whole batch once. That is more
work, but the host never waits for the device, and a step can be captured in a CUDA graph.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from hba.operations.operation import Kernel, Maps, Operation, Selection, Step, identity_coefficients
from hba.utils.devices import whole_numbers

PART_VALUES = 1 << 19
"""How many numbers of a batch are worked on at once; with their temporaries they stay in the processor's cache."""
LARGE_IMAGE_VALUES = 1 << 17
"""An image of at least so many numbers is worked on alone: sorting it would cost more than a batch saves."""


@torch.no_grad()
def apply_steps(
    operations: Sequence[Operation],
    chosen: Tensor,
    magnitudes: Tensor,
    positions: Tensor,
    images: Tensor,
    fill: Tensor,
) -> Tensor:
    """New images (B, C, H, W) after S steps, without gradient; the input is not changed.

    chosen (B, S) are indices into the operations, -1 for none; magnitudes (B, S), positions (B, S, 2) and fill (C,)
    are what operations take.
    """
    if not images.numel():
        return images.clone()
    maps = maps_of_steps(operations, chosen, magnitudes, *images.shape[2:])
    unbound = (values.unbind(1) for values in (chosen, magnitudes, positions, *maps))
    steps = [Step(*values) for values in zip(*unbound, strict=True)]
    if images.device.type == "cpu" and not torch.compiler.is_compiling():
        return _apply_to_subsets(operations, steps, images, fill)
    return _apply_in_fixed_shapes(operations, steps, images, fill)


def maps_of_steps(operations: Sequence[Operation], chosen: Tensor, magnitudes: Tensor, height: int, width: int) -> Maps:
    """The affine map of every image in every step, (B, S); the identity where no pixel is moved."""
    magnitude = magnitudes.double()
    coefficients = identity_coefficients(magnitude)
    for index, operation in enumerate(operations):
        found = operation.kernel.map_coefficients(magnitude, height, width)
        if found:
            is_chosen = chosen == index
            coefficients |= {name: torch.where(is_chosen, found[name], coefficients[name]) for name in found}
    return Maps.of(coefficients)


def _apply_in_fixed_shapes(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    result = images
    for step in steps:
        for group in _batch_groups(operations, step):
            is_chosen = torch.stack([one.images for one in group]).any(dim=0)[:, None, None, None]
            result = torch.where(is_chosen, group[0].kernel.on_batch(group, result, step, fill), result)
    return result.clone() if result is images else result


def _batch_groups(operations: Sequence[Operation], step: Step) -> list[list[Selection[Kernel]]]:
    """The operations by batch_group; those that are computed alone come last."""
    is_chosen = step.chosen[:, None] == whole_numbers(len(operations), step.chosen.dtype, step.chosen.device)
    together: dict[Hashable, list[Selection[Kernel]]] = {}
    alone: list[list[Selection[Kernel]]] = []
    for operation, images in zip(operations, is_chosen.unbind(1), strict=True):
        selection = Selection(operation, operation.kernel, images, step.magnitude)
        group = selection.kernel.batch_group
        if group is None:
            alone.append([selection])
        else:
            together.setdefault(group, []).append(selection)
    return [*together.values(), *alone]


def _apply_to_subsets(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    """From images with at least one pixel, in parts of the batch."""
    result = torch.empty_like(images)
    groups, group_of_operation = _subset_groups(operations)
    steps = [step._replace(chosen=group_of_operation[step.chosen]) for step in steps]
    values_per_image = images[0].numel()
    n_images = 1 if values_per_image >= LARGE_IMAGE_VALUES else PART_VALUES // values_per_image
    for part, part_result, *part_steps in zip(
        images.split(n_images), result.split(n_images), *(step.split(n_images) for step in steps), strict=True
    ):
        _apply_to_part(groups, part_steps, part, fill, part_result)
    return result


def _subset_groups(operations: Sequence[Operation]) -> tuple[list[Operation | None], Tensor]:
    """The first operation of each group, then None for images that get no operation; and each operation's group.

    The last entry of the groups' numbers (n + 1,), which an index of -1 finds, is that of no operation.
    """
    firsts: list[Operation | None] = []
    number_of: dict[Hashable, int] = {}
    numbers: list[int] = []
    for index, operation in enumerate(operations):
        group = operation.kernel.subset_group
        key = index if group is None else group
        if key not in number_of:
            number_of[key] = len(firsts)
            firsts.append(operation)
        numbers.append(number_of[key])
    return [*firsts, None], torch.tensor([*numbers, len(firsts)])


def _apply_to_part(
    groups: Sequence[Operation | None], steps: Sequence[Step], images: Tensor, fill: Tensor, result: Tensor
) -> None:
    """Sort the images by group, so that each group computes one batch.

    `chosen` of these steps is a group's number. order: for each image of the sorted batch, its number in the part;
    None while nothing is sorted.
    """
    order: Tensor | None = None
    for step in steps:
        counts = step.chosen.bincount(minlength=len(groups)).tolist()
        if max(counts) == len(images):
            sorted_step = step if order is None else step.select(order)
            images = _apply_group(groups[counts.index(len(images))], images, sorted_step, fill)
        else:
            row_of_image = None if order is None else order.argsort()
            order = step.chosen.argsort(stable=True)
            sorted_images = images.index_select(0, order if row_of_image is None else row_of_image[order])
            parts = zip(groups, sorted_images.split(counts), step.select(order).split(counts), strict=True)
            images = torch.cat([_apply_group(*part, fill) for part in parts if len(part[1])])
    if order is None:
        result.copy_(images)
    else:
        torch.index_select(images, 0, order.argsort(), out=result)


def _apply_group(operation: Operation | None, images: Tensor, step: Step, fill: Tensor) -> Tensor:
    return images if operation is None else operation.kernel.on_subset(operation, images, step, fill)
