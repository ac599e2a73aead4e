"""Steps on a CPU: every operation computes the images that get it, and no others."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hba.operations.operation import Operation
from hba.operations.steps import Step

PART_VALUES = 1 << 19
"""How many numbers of a batch are worked on at once; with their temporaries they stay in the processor's cache."""
LARGE_IMAGE_VALUES = 1 << 17
"""An image of at least so many numbers is worked on alone: sorting it would cost more than a batch saves."""


def apply_to_own_images(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    """New images (B, C, H, W), at least one pixel, computed in parts of the batch."""
    result = torch.empty_like(images)
    groups = _groups(operations)
    group_of_operation = torch.tensor(_group_numbers(groups, len(operations)))
    steps = [step._replace(chosen=group_of_operation[step.chosen]) for step in steps]
    values_per_image = images[0].numel()
    n_images = 1 if values_per_image >= LARGE_IMAGE_VALUES else PART_VALUES // values_per_image
    for part, part_result, *part_steps in zip(
        images.split(n_images), result.split(n_images), *(step.split(n_images) for step in steps), strict=True
    ):
        _apply_to_part(groups, part_steps, part, fill, part_result)
    return result


@dataclass(frozen=True)
class _Group:
    """Operations, by their indices, that are computed in one go, and the first of them."""

    indices: tuple[int, ...]
    operation: Operation

    def __call__(self, images: Tensor, step: Step, fill: Tensor) -> Tensor:
        return self.operation.kind.on_own_images(self.operation, images, step, fill)


def _groups(operations: Sequence[Operation]) -> list[_Group | None]:
    """All groups; the last is None, for images that get no operation."""
    alike: dict[Hashable, list[int]] = {}
    for index, operation in enumerate(operations):
        group = operation.kind.own_images_group
        alike.setdefault(index if group is None else group, []).append(index)
    return [*(_Group(tuple(indices), operations[indices[0]]) for indices in alike.values()), None]


def _group_numbers(groups: list[_Group | None], n_operations: int) -> list[int]:
    """The group of each operation; the last entry, which -1 finds, is that of no operation."""
    numbers = [len(groups) - 1] * (n_operations + 1)
    for number, group in enumerate(groups):
        for index in group.indices if group else ():
            numbers[index] = number
    return numbers


def _apply_to_part(
    groups: list[_Group | None], steps: Sequence[Step], images: Tensor, fill: Tensor, result: Tensor
) -> None:
    """Sort the images by group: each group computes one batch.

    `chosen` of these steps is a group's number. order: for each image of the sorted batch, its number in the part;
    None while nothing is sorted.
    """
    order: Tensor | None = None
    for step in steps:
        counts = step.chosen.bincount(minlength=len(groups)).tolist()
        if max(counts) == len(images):
            own_step = step if order is None else step.select(order)
            images = _apply_group(groups[counts.index(len(images))], images, own_step, fill)
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


def _apply_group(group: _Group | None, images: Tensor, step: Step, fill: Tensor) -> Tensor:
    return images if group is None else group(images, step, fill)
