"""A schedule as an augmentation of kornia, which exported files contain, with the
modules of hba that it uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from kornia.augmentation import GeometricAugmentationBase2D
from torch import Tensor

from hba.operations.drawing import DRAWINGS
from hba.operations.geometric import affine_maps, check_mask_fill, matrices
from hba.operations.image_operation import ImageOperation
from hba.policy.batch_draw import draw_magnitudes, draw_slots
from hba.policy.player import PlainRow, Player, Tables
from hba.utils.tensors import usual_types

# Exported files contain the rest of this module.


def draw_for_batch(
    row: PlainRow, n_images: int, device: torch.device
) -> dict[str, Tensor]:
    """Draw what to do with each image in at most S steps: slots (B, S), -1 for nothing;
    magnitudes (B, S); positions (B, S, P).
    """
    first, last, _ = row.walk.indices(len(row.slots))
    drawn = draw_slots(
        torch.tensor(row.probabilities, device=device),
        torch.tensor(row.limits, device=device),
        slice(first, last),
        row.n_uniforms,
        n_images,
    )
    numbers = torch.tensor([slot[1:] for slot in row.slots], device=device)
    magnitudes, low, high, logits, widths = numbers[drawn.slots].unbind(2)
    if row.is_spread:
        noise = torch.randn(magnitudes.shape, device=device)
        moved = low.lerp(high, (logits + widths * noise).sigmoid())
        magnitudes = torch.where(widths > 0, moved, magnitudes)
    operations = [slot.operation for slot in row.slots]
    drawings = [DRAWINGS.index(operation.drawing) for operation in operations]
    identities = [operation.identity or 0.0 for operation in operations]
    magnitudes = draw_magnitudes(
        magnitudes,
        drawn.numbers,
        torch.tensor(drawings, device=device)[drawn.slots],
        torch.tensor(identities, device=device)[drawn.slots],
    )
    return {
        "slots": torch.where(drawn.applied, drawn.slots, -1),
        "magnitudes": magnitudes * drawn.applied,
        "positions": drawn.positions,
    }


class SchedulePolicy(Player, GeometricAugmentationBase2D):
    """Augments batches by the policy of the current place in the schedule.

    Takes images (B, C, H, W), float in [0, 1], C 1 or 3, on any device; place it before
    the normalisation. In kornia's AugmentationSequential, masks, boxes and keypoints
    move along with their image; masks have mask_fill in uncovered areas. Without
    same_on_batch, every image gets a draw of its own, by torch's default generator.
    """

    def __init__(
        self,
        operations: Mapping[str, ImageOperation],
        tables: Tables,
        fill: Mapping[int, tuple[float, ...]],
        mask_fill: float = 0,
        same_on_batch: bool = False,
        keepdim: bool = False,
    ) -> None:
        """Make the augmentation.

        Args:
            operations: By name.
            tables: Of the schedule.
            fill: For each number of channels, the colour in [0, 1] of areas that
                operations uncover.
            mask_fill: The value of pixels of masks there.
            same_on_batch: Whether all images of a batch get one draw.
            keepdim: Whether a result has as many dimensions as the images.
        """
        super().__init__(
            operations, tables, p=1.0, same_on_batch=same_on_batch, keepdim=keepdim
        )
        self.fill = fill
        self.mask_fill = mask_fill
        self._is_checked = False
        self.by_slot = [operations[name] for name, _, _ in tables.slots]

    def __call__(self, input: Any, *arguments: Any, **settings: Any) -> Any:
        if not (isinstance(input, Tensor) and input.is_floating_point()):
            dtype = getattr(input, "dtype", type(input).__name__)
            raise TypeError(
                f"images must be a float tensor (B, C, H, W) in [0, 1], got {dtype};"
                " divide uint8 by 255"
            )
        return super().__call__(input, *arguments, **settings)

    @usual_types()
    def generate_parameters(self, batch_shape: tuple[int, ...]) -> dict[str, Tensor]:
        n_images = int(batch_shape[0])
        n_draws = min(n_images, 1) if self.same_on_batch else n_images
        drawn = draw_for_batch(self.row(), n_draws, torch.device(self.device))
        return {
            name: values.expand(n_images, *values.shape[1:])
            for name, values in drawn.items()
        }

    @usual_types()
    def compute_transformation(
        self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any]
    ) -> Tensor:
        """The maps of pixels (B, 3, 3), with the centre of the first one at (0, 0)."""
        identity = torch.eye(3, dtype=torch.float64, device=input.device)
        whole = identity.repeat(len(params["slots"]), 1, 1)
        for operation, chosen, magnitude, position in self._steps(params, input.device):
            if operation.interpolation:
                maps = affine_maps(operation, magnitude, position, *input.shape[2:])
                step = matrices(maps, operation.interpolation)
                whole[chosen] = whole[chosen] @ step
        centre = identity.clone()
        centre[:2, 2] = 0.5
        return (centre.inverse() @ whole.inverse() @ centre).to(
            torch.promote_types(input.dtype, torch.float32)
        )

    def apply_transform(
        self, input: Tensor, params: dict[str, Tensor], *_: Any, **__: Any
    ) -> Tensor:
        if input.shape[1] not in self.fill:
            raise TypeError(f"images must have 1 or 3 channels, got {input.shape[1]}")
        if input.numel() and (input.device.type == "cpu" or not self._is_checked):
            # On a GPU the host would wait for the values of each batch.
            self._is_checked = True
            lowest, highest = (float(end) for end in input.aminmax())
            if not (lowest >= -0.5 and highest <= 1.5):
                rule = f"images must lie in [0, 1], got [{lowest:g}, {highest:g}]"
                raise ValueError(f"{rule}; place the policy before the normalisation")
        # 16 bits would hold too few levels.
        images = input.to(torch.promote_types(input.dtype, torch.float32))
        fill = images.new_tensor(self.fill[input.shape[1]])
        return self._augment(images, params, fill, moves_only=False).to(input.dtype)

    def apply_transform_mask(
        self, input: Tensor, params: dict[str, Tensor], *_: Any, **__: Any
    ) -> Tensor:
        check_mask_fill(self.mask_fill, input.dtype)
        fill = input.new_full((input.shape[1],), self.mask_fill)
        return self._augment(self._movable(input), params, fill, moves_only=True)

    def _movable(self, annotations: Any, *_: Any, **__: Any) -> Any:
        """Return masks, boxes or keypoints unchanged; TypeError if an operation does
        not say where they move.
        """
        unknown = [
            operation.name
            for operation in self.operations.values()
            if operation.moves_pixels is None
            or (operation.moves_pixels and not operation.interpolation)
        ]
        if unknown:
            raise TypeError(
                f"only images can go through {', '.join(unknown)}; export the schedule"
                " --without them"
            )
        return annotations

    # What kornia calls before it moves boxes and keypoints by the transformation.
    apply_non_transform_box = _movable  # type: ignore[assignment]
    apply_non_transform_keypoint = _movable  # type: ignore[assignment]

    @usual_types()
    def _augment(
        self, images: Tensor, params: dict[str, Tensor], fill: Tensor, moves_only: bool
    ) -> Tensor:
        """moves_only: as for a mask, apply only operations that move pixels, with
        nearest interpolation.
        """
        result = images.clone()
        for operation, chosen, magnitude, position in self._steps(
            params, images.device
        ):
            if moves_only and not operation.interpolation:
                continue
            if moves_only:
                operation = replace(operation, kernel="nearest")
            result[chosen] = operation.compute(
                result[chosen], magnitude, fill, position
            )
        return result

    def _steps(
        self, params: dict[str, Tensor], device: torch.device
    ) -> Iterator[tuple[ImageOperation, Tensor, Tensor, Tensor]]:
        """Operations that some image gets, step by step; the numbers of these images,
        their magnitudes and positions.
        """
        slots, magnitudes, positions = (
            params[name].to(device) for name in ("slots", "magnitudes", "positions")
        )
        for step in range(slots.shape[1]):
            for operation in self.operations.values():
                of_operation = [
                    slot
                    for slot, candidate in enumerate(self.by_slot)
                    if candidate is operation
                ]
                is_chosen = torch.isin(
                    slots[:, step], torch.tensor(of_operation, device=device)
                )
                chosen = is_chosen.nonzero().flatten()
                if len(chosen):
                    yield (
                        operation,
                        chosen,
                        magnitudes[chosen, step],
                        positions[chosen, step],
                    )
