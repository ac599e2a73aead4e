"""Steps on a GPU, or in a compiled program: shapes do not depend on what was drawn.

Each group of operations computes the whole batch once. That is more work, but the host never waits for the device,
and a step can be captured in a CUDA graph.
"""

from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from hba.operations.kind import Kind
from hba.operations.operation import Operation
from hba.operations.steps import Pick, Step
from hba.utils.device_constants import whole_numbers


def apply_in_fixed_shapes(operations: Sequence[Operation], steps: list[Step], images: Tensor, fill: Tensor) -> Tensor:
    """New images (B, C, H, W)."""
    result = images
    for step in steps:
        for group in _groups(operations, step):
            is_chosen = torch.stack([pick.images for pick in group]).any(dim=0)[:, None, None, None]
            result = torch.where(is_chosen, group[0].kind.on_batch(group, result, step, fill), result)
    return result.clone() if result is images else result


def _groups(operations: Sequence[Operation], step: Step) -> list[list[Pick[Kind]]]:
    """The operations that are computed in one go; last those that are computed alone."""
    is_chosen = step.chosen[:, None] == whole_numbers(len(operations), step.chosen.dtype, step.chosen.device)
    together: dict[Hashable, list[Pick[Kind]]] = {}
    alone: list[list[Pick[Kind]]] = []
    for operation, images in zip(operations, is_chosen.unbind(1), strict=True):
        pick = Pick(operation, operation.kind, images, step.magnitude)
        group = pick.kind.batch_group
        if group is None:
            alone.append([pick])
        else:
            together.setdefault(group, []).append(pick)
    return [*together.values(), *alone]
