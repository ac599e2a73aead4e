"""The code of an exported file for kornia, which needs kornia and PyTorch, but not hba.

hba/exports/python_file.py writes it into the file, below the modules of hba that it
uses. OPERATIONS, TABLES, FILL and MASK_FILL are the file's own.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from kornia.augmentation import GeometricAugmentationBase2D
from torch import Tensor
from torch.nn.functional import pad

from hba.operations.geometric import Maps, affine_maps, fits_dtype, warp
from hba.policy.player import Place, PlainRow, Tables
from hba.utils.tensors import usual_types

if TYPE_CHECKING:
    OPERATIONS: Mapping[str, "Operation"]
    TABLES: Tables
    FILL: Mapping[int, tuple[float, ...]]
    MASK_FILL: float


# Exported files contain the rest of this module.


class Operation(NamedTuple):
    """One image operation: its function on images (N, C, H, W), and its further
    arguments, with a row for each image.

    interpolation: nearest or bilinear, if the function returns the coefficients of an
    affine map from magnitudes, height and width. moves_pixels: whether it moves pixels;
    without an interpolation, it is not known where to. signed: the magnitude is negated
    with probability 0.5.
    """

    function: Callable[..., Any]
    interpolation: str | None = None
    moves_pixels: bool = False
    has_magnitude: bool = False
    signed: bool = False
    uses_fill: bool = False
    n_uniforms: int = 0

    def __call__(
        self, images: Tensor, magnitude: Tensor, fill: Tensor, position: Tensor
    ) -> Tensor:
        """New images. magnitude (N,), fill (C,), position (N, P) random numbers in [0,
        1).
        """
        if self.interpolation:
            return warp(
                images,
                affine_maps(self, magnitude, position, *images.shape[2:]),
                fill,
                self.interpolation,
            )
        position = position[:, : self.n_uniforms]
        takes = (
            (magnitude, self.has_magnitude),
            (fill, self.uses_fill),
            (position, self.n_uniforms > 0),
        )
        return self.function(
            images, *(argument for argument, is_taken in takes if is_taken)
        )


def draw_for_batch(
    row: PlainRow, n_images: int, device: torch.device
) -> dict[str, Tensor]:
    """Draw what to do with each image in at most S steps: slots (B, S), -1 for nothing;
    signed magnitudes (B, S); positions (B, S, P). In the walk, an image may get K
    operations: of the slots in a random order, the first K that fire are applied. Every
    other slot has a step of its own, before or after the walk.
    """
    n_slots, most, (width, other_width) = (
        len(row.slots),
        len(row.limits),
        row.n_uniforms,
    )
    walk = torch.arange(n_slots, device=device)[row.walk]
    others = torch.tensor(
        [one for one in range(n_slots) if one not in range(n_slots)[row.walk]],
        device=device,
    ).long()
    probabilities, limits = (
        torch.tensor(one, device=device) for one in (row.probabilities, row.limits)
    )
    signed = torch.tensor([slot.operation.signed for slot in row.slots], device=device)
    columns = torch.tensor([slot[1:] for slot in row.slots], device=device)
    fires = torch.rand(n_images, len(walk), device=device) < probabilities[walk]
    order = torch.where(fires, torch.rand(n_images, len(walk), device=device), 2.0)
    keys, on_walk = order.topk(most, dim=1, largest=False, sorted=True)
    count = (torch.rand(n_images, 1, device=device) >= limits).sum(dim=1, keepdim=True)
    reached = (keys <= 1) & (torch.arange(most, device=device) < count)
    is_minus = torch.rand(n_images, most, device=device) < 0.5
    positions = torch.rand(n_images, most, width, device=device)
    other_fires = (
        torch.rand(n_images, len(others), device=device) < probabilities[others]
    )
    other_positions = torch.rand(n_images, len(others), other_width, device=device)

    def around(of_others: Tensor, of_walk: Tensor) -> Tensor:
        first = row.walk.start
        return torch.cat([of_others[:, :first], of_walk, of_others[:, first:]], dim=1)

    slots = around(others.expand(n_images, -1), walk[on_walk])
    applied = around(other_fires, reached)
    negated = signed[slots] & around(torch.zeros_like(other_fires), is_minus)
    widest = max(width, other_width)
    positions = around(
        *(pad(one, (0, widest - one.shape[2])) for one in (other_positions, positions))
    )
    magnitudes, low, high, logits, widths = columns[slots].unbind(2)
    if row.is_spread:
        moved = low.lerp(
            high,
            (logits + widths * torch.randn(magnitudes.shape, device=device)).sigmoid(),
        )
        magnitudes = torch.where(widths > 0, moved, magnitudes)
    magnitudes = torch.where(negated, -magnitudes, magnitudes) * applied
    return {
        "slots": torch.where(applied, slots, -1),
        "magnitudes": magnitudes,
        "positions": positions,
    }


class SchedulePolicy(Place, GeometricAugmentationBase2D):
    """Augments batches by the policy of the current place in the schedule.

    Takes images (B, C, H, W), float in [0, 1], C 1 or 3, on any device; place it before
    the normalisation. In kornia's AugmentationSequential, masks, boxes and keypoints
    move along with their image; masks have mask_fill in uncovered areas. Without
    same_on_batch, every image gets a draw of its own, by torch's default generator.
    """

    def __init__(
        self,
        operations: Mapping[str, Operation],
        tables: Tables,
        fill: Mapping[int, tuple[float, ...]],
        same_on_batch: bool = False,
        keepdim: bool = False,
        mask_fill: float = 0,
    ) -> None:
        super().__init__(p=1.0, same_on_batch=same_on_batch, keepdim=keepdim)
        self.begin(operations, tables, fill)
        self.mask_fill = mask_fill
        self._is_checked = False
        self.by_slot = [operations[name] for name, _, _ in tables.slots]

    def __call__(self, input: Any, *given: Any, **named: Any) -> Any:
        if not (isinstance(input, Tensor) and input.is_floating_point()):
            found = getattr(input, "dtype", type(input).__name__)
            raise TypeError(
                f"images must be a float tensor (B, C, H, W) in [0, 1], got {found};"
                " divide uint8 by 255"
            )
        return super().__call__(input, *given, **named)

    @usual_types()
    def generate_parameters(self, batch_shape: tuple[int, ...]) -> dict[str, Tensor]:
        n_images = int(batch_shape[0])
        n_draws = min(n_images, 1) if self.same_on_batch else n_images
        drawn = draw_for_batch(self.row(), n_draws, torch.device(self.device))
        return {
            name: one.expand(n_images, *one.shape[1:]) for name, one in drawn.items()
        }

    @usual_types()
    def compute_transformation(
        self, input: Tensor, params: dict[str, Tensor], flags: dict[str, Any]
    ) -> Tensor:
        """The maps of pixels (B, 3, 3), with the centre of the first one at (0, 0)."""
        n_images = len(params["slots"])
        whole = torch.eye(3, dtype=torch.float64, device=input.device).repeat(
            n_images, 1, 1
        )
        for step in range(params["slots"].shape[1]):
            for operation, chosen, magnitude, position in self._of_step(
                params, step, input.device
            ):
                if operation.interpolation:
                    maps = affine_maps(operation, magnitude, position, *input.shape[2:])
                    whole[chosen] = whole[chosen] @ matrices(
                        maps, operation.interpolation
                    )
        centre = torch.eye(3, dtype=torch.float64, device=input.device)
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
            lowest, highest = (float(one) for one in input.aminmax())
            if not (lowest >= -0.5 and highest <= 1.5):
                rule = f"images must lie in [0, 1], got [{lowest:g}, {highest:g}]"
                raise ValueError(f"{rule}; place the policy before the normalisation")
        images = input.to(
            torch.promote_types(input.dtype, torch.float32)
        )  # 16 bits would hold too few levels
        fill = images.new_tensor(self.fill[input.shape[1]])
        return self._augmented(images, params, fill, moves_only=False).to(input.dtype)

    def apply_transform_mask(
        self, input: Tensor, params: dict[str, Tensor], *_: Any, **__: Any
    ) -> Tensor:
        if not fits_dtype(self.mask_fill, input.dtype):
            raise ValueError(
                f"mask_fill must be a value of the masks' dtype, {input.dtype}, got"
                f" {self.mask_fill}"
            )
        fill = input.new_full((input.shape[1],), self.mask_fill)
        return self._augmented(self._movable(input), params, fill, moves_only=True)

    def _movable(self, annotations: Any, *_: Any, **__: Any) -> Any:
        """Return masks, boxes or keypoints unchanged; TypeError if an operation does
        not say where they move.
        """
        if unknown := [
            name
            for name, one in self.operations.items()
            if one.moves_pixels and not one.interpolation
        ]:
            raise TypeError(
                f"only images can go through {', '.join(unknown)}; export the schedule"
                " --without them"
            )
        return annotations

    # What kornia calls before it moves boxes and keypoints by the transformation.
    apply_non_transform_box = apply_non_transform_keypoint = _movable  # type: ignore[assignment]

    @usual_types()
    def _augmented(
        self, images: Tensor, params: dict[str, Tensor], fill: Tensor, moves_only: bool
    ) -> Tensor:
        """moves_only: as for a mask, apply only operations that move pixels, with
        nearest interpolation.
        """
        result = images.clone()
        for step in range(params["slots"].shape[1]):
            for operation, chosen, magnitude, position in self._of_step(
                params, step, images.device
            ):
                if operation.interpolation or not moves_only:
                    one = (
                        operation._replace(interpolation="nearest")
                        if moves_only
                        else operation
                    )
                    result[chosen] = one(result[chosen], magnitude, fill, position)
        return result

    def _of_step(
        self, params: dict[str, Tensor], step: int, device: torch.device
    ) -> Iterator[tuple[Operation, Tensor, Tensor, Tensor]]:
        """Operations that some image gets in a step; the numbers of these images, their
        magnitudes and positions.
        """
        slots, sizes, places = (
            params[name][:, step].to(device)
            for name in ("slots", "magnitudes", "positions")
        )
        for operation in self.operations.values():
            own = [slot for slot, one in enumerate(self.by_slot) if one is operation]
            chosen = (
                torch.isin(slots, torch.tensor(own, device=device)).nonzero().flatten()
            )
            if len(chosen):
                yield operation, chosen, sizes[chosen], places[chosen]


def matrices(maps: Maps, interpolation: str | None) -> Tensor:
    """Maps (N, 3, 3), float64, from places in results to places in inputs, in pixels
    from the top left corner.
    """
    a, b, c, d, e, f = maps.exact.unbind(1)
    if interpolation == "nearest":
        # Whole pixels were shifted.
        moved = (b == 0) & (d == 0)
        c, f = (torch.where(moved, (one + 0.5).floor(), one) for one in (c, f))
    zero = torch.zeros_like(a)
    one = torch.ones_like(a)
    return torch.stack([a, b, c, d, e, f, zero, zero, one], dim=1).view(-1, 3, 3)


def policy(
    same_on_batch: bool = False, keepdim: bool = False, mask_fill: float | None = None
) -> SchedulePolicy:
    """The schedule as an augmentation of kornia, in its last epoch until you call
    set_epoch or set_progress.

    mask_fill: the value of pixels of masks that operations uncover; None is MASK_FILL.
    """
    fill_of_masks = MASK_FILL if mask_fill is None else mask_fill  # noqa: F821
    return SchedulePolicy(
        OPERATIONS,  # noqa: F821
        TABLES,  # noqa: F821
        FILL,  # noqa: F821
        same_on_batch,
        keepdim,
        fill_of_masks,
    )
