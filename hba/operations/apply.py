"""Applies operations to a batch: in each step every image gets its own."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hba.operations.fixed_shapes import apply_in_fixed_shapes
from hba.operations.operation import Operation
from hba.operations.own_images import apply_to_own_images
from hba.operations.resample import Maps, identity_coefficients
from hba.operations.steps import Step


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
    are what operations take. On a CPU each operation computes its own images only, which is least work. Elsewhere, and
    in a compiled program, nothing depends on what was drawn, so the host never waits for the device.
    """
    if not images.numel():
        return images.clone()
    maps = maps_of_steps(operations, chosen, magnitudes, *images.shape[2:])
    unbound = (values.unbind(1) for values in (chosen, magnitudes, positions, *maps))
    steps = [Step(*values) for values in zip(*unbound, strict=True)]
    if images.device.type == "cpu" and not torch.compiler.is_compiling():
        return apply_to_own_images(operations, steps, images, fill)
    return apply_in_fixed_shapes(operations, steps, images, fill)


def maps_of_steps(operations: Sequence[Operation], chosen: Tensor, magnitudes: Tensor, height: int, width: int) -> Maps:
    """The affine map of every image in every step, (B, S); the identity where no pixel is moved."""
    magnitude = magnitudes.double()
    coefficients = identity_coefficients(magnitude)
    for index, operation in enumerate(operations):
        own = operation.kind.map_coefficients(magnitude, height, width)
        if own:
            is_chosen = chosen == index
            coefficients |= {name: torch.where(is_chosen, own[name], coefficients[name]) for name in own}
    return Maps.of(coefficients)
