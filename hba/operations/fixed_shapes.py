"""Steps on a GPU, or in a compiled program: shapes do not depend on what was drawn.

Every kind of operation computes the whole batch, once for all operations of that kind. More work, but the host never
waits for the device, and a step can be captured in a CUDA graph.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hba.operations.enhance import Blend, blend
from hba.operations.geometric import INTERPOLATIONS, Maps, Warp, warp
from hba.operations.operation import Operation
from hba.operations.point import N_LEVELS, Curve, Stretch, every_level, look_up, to_levels
from hba.operations.steps import Step
from hba.runtime.device_constants import whole_numbers


def apply_in_fixed_shapes(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    """New images (B, C, H, W)."""
    result = images
    for step in steps:
        is_chosen = step.chosen[:, None] == whole_numbers(len(operations), step.chosen.dtype, step.chosen.device)
        picks = [_Pick(*pick, step.magnitude) for pick in zip(operations, is_chosen.unbind(1), strict=True)]
        result = _warp_all(picks, step.maps, result, fill)
        result = _look_up_all(picks, result)
        result = _blend_all(picks, result)
        for pick in picks:
            if not isinstance(pick.operation.function, Warp | Curve | Stretch | Blend):
                own = pick.operation(result, pick.own_magnitude(), fill=fill, position=step.position)
                result = torch.where(_any([pick]), own, result)
    return result.clone() if result is images else result


class _Pick(NamedTuple):
    """An operation, which images get it (B,), and the magnitude of whatever operation an image gets (B,)."""

    operation: Operation
    images: Tensor
    magnitude: Tensor

    def arguments(self) -> tuple[Tensor, ...]:
        """The magnitude, if the operation has one."""
        return () if self.operation.magnitude_range is None else (self.magnitude,)

    def own_magnitude(self) -> Tensor | None:
        """The magnitude, in this operation's range also for images that get another: it may not cope with others."""
        if self.operation.magnitude_range is None:
            return None
        return torch.where(self.images, self.magnitude, self.operation.magnitude_range[0])


def _warp_all(picks: list[_Pick], maps: Maps, images: Tensor, fill: Tensor) -> Tensor:
    """A single resampling. Images that get another operation have a map that changes nothing."""
    for interpolation in INTERPOLATIONS:
        moved = [pick for pick in picks if pick.operation.interpolation == interpolation]
        if moved:
            images = torch.where(_any(moved), warp(images, maps, fill, interpolation), images)
    return images


def _look_up_all(picks: list[_Pick], images: Tensor) -> Tensor:
    """One table per image and channel, and a single look-up."""
    if not any(isinstance(pick.operation.function, Curve | Stretch) for pick in picks):
        return images
    levels = to_levels(images)
    tables = every_level(images)
    changed = []
    for pick in picks:
        function = pick.operation.function
        if isinstance(function, Curve | Stretch):
            tables = torch.where(pick.images[:, None, None], function.tables(levels, *pick.arguments()), tables)
            changed.append(pick)
    return torch.where(_any(changed), look_up(tables.expand(*images.shape[:2], N_LEVELS), levels), images)


def _blend_all(picks: list[_Pick], images: Tensor) -> Tensor:
    """One poorer version and one factor per image, and a single blend."""
    poorer, factor = images, images.new_ones(len(images))
    changed = []
    for pick in picks:
        function = pick.operation.function
        if isinstance(function, Blend):
            poorer = torch.where(pick.images[:, None, None, None], function.poorer(images), poorer)
            factor = torch.where(pick.images, pick.magnitude, factor)
            changed.append(pick)
    return torch.where(_any(changed), blend(poorer, images, factor), images) if changed else images


def _any(picks: list[_Pick]) -> Tensor:
    """Which images get one of these, (B, 1, 1, 1)."""
    return torch.stack([pick.images for pick in picks]).any(dim=0)[:, None, None, None]
