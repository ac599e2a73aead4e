"""Perspective and elastic distortion, with functions that return the change for boxes,
masks and keypoints.

Convention: as in photometric.py. fill (C,) is the colour of pixels from outside the
image. Sampling is bilinear. The functions on annotations take boxes, a mask or
keypoints of torchvision's tv_tensors, the largest change (1,) and random numbers (1, n)
of one image, its height and width, and the value of uncovered pixels of masks, which
take the nearest pixel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hba.operations.photometric import hashed
from hba.utils.tensors import device_constant

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# Exported files contain the rest of this module.

CELLS = 4
"""Number of cells of the elastic grid along each side."""


def perspective(
    images: Tensor, largest: Tensor, fill: Tensor, uniforms: Tensor
) -> Tensor:
    """Move the image's corners inwards by up to `largest` of half a side; uniforms (B,
    8).

    Ref: torchvision's RandomPerspective(distortion_scale=largest),
    functional.perspective.
    """
    from kornia.geometry.transform import get_perspective_transform, warp_perspective

    height, width = images.shape[2:]
    if min(height, width) < 2:
        return images.clone()
    start, end = (
        points.float()
        for points in perspective_points(largest, uniforms, height, width)
    )
    # Pixel centres are at halves in torchvision, at whole numbers in kornia.
    maps = get_perspective_transform(start - 0.5, end - 0.5)
    # Pixels outside are 0, which becomes the fill colour when it is added again.
    filled = fill.float()[:, None, None]
    moved = (
        warp_perspective(images.float() - filled, maps, (height, width))
        .add_(filled)
        .clamp_(0, 1)
    )
    return moved.to(images.dtype).where(
        (start != end).flatten(1).any(dim=1)[:, None, None, None], images
    )


def perspective_of_annotation(
    annotation: Any,
    largest: Tensor,
    uniforms: Tensor,
    size: tuple[int, int],
    mask_fill: float,
) -> Any:
    """Boxes, a mask or keypoints after `perspective`."""
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as TF

    start, end = perspective_points(largest, uniforms, *size)
    corners = start[0].tolist(), end[0].tolist()
    nearest = InterpolationMode.NEAREST
    return TF.perspective(annotation, *corners, nearest, fill=mask_fill)


def perspective_points(
    largest: Tensor, uniforms: Tensor, height: int, width: int
) -> tuple[Tensor, Tensor]:
    """Corners before and after, (B, 4, 2) whole numbers x and y: top left, top right,
    bottom right, bottom left.

    Row i of both, as lists, are the startpoints and endpoints of torchvision's
    functional.perspective for image i and its annotations. Each corner moves by 0 to
    int(largest * (side // 2)) pixels along each side, all equally likely.
    """
    import torch

    start = _corners(height, width, uniforms.device)
    most = torch.stack(
        [(largest * (side // 2)).floor() for side in (width, height)], dim=1
    )
    inwards = (uniforms.unflatten(1, (4, 2)) * (most + 1)[:, None]).long()
    end = torch.where(start > 0, start - inwards, inwards)
    return start.expand_as(end), end


@device_constant
def _corners(height: int, width: int, device: torch.device) -> Tensor:
    import torch

    right = width - 1
    bottom = height - 1
    return torch.tensor(
        ((0, 0), (right, 0), (right, bottom), (0, bottom)), device=device
    )


def elastic(images: Tensor, largest: Tensor, fill: Tensor, uniforms: Tensor) -> Tensor:
    """Move pixels by a smooth random field, by up to `largest` of each side; uniforms
    (B, 1).

    Ref: torchvision's functional.elastic with `elastic_displacement`.
    """
    import torch

    height, width = images.shape[2:]
    identity = torch.nn.functional.affine_grid(
        torch.eye(2, 3, device=images.device)[None],
        [1, 1, height, width],
        align_corners=False,
    )
    grid = identity + elastic_displacement(largest, uniforms, height, width)
    filled = fill.float()[:, None, None]
    moved = torch.nn.functional.grid_sample(
        images.float() - filled, grid, mode="bilinear", align_corners=False
    )
    return (
        moved.add_(filled)
        .clamp_(0, 1)
        .to(images.dtype)
        .where(largest[:, None, None, None] > 0, images)
    )


def elastic_of_annotation(
    annotation: Any,
    largest: Tensor,
    uniforms: Tensor,
    size: tuple[int, int],
    mask_fill: float,
) -> Any:
    """Boxes, a mask or keypoints after `elastic`; places are approximate, as in
    torchvision.
    """
    from torchvision import tv_tensors
    from torchvision.transforms import InterpolationMode
    from torchvision.transforms.v2 import functional as TF

    displacement = elastic_displacement(largest, uniforms, *size)
    nearest = InterpolationMode.NEAREST
    if isinstance(annotation, tv_tensors.Mask):
        return TF.elastic(annotation, displacement, nearest, fill=mask_fill)
    is_boxes = isinstance(annotation, tv_tensors.BoundingBoxes)
    places = annotation
    if is_boxes:
        places = TF.convert_bounding_box_format(places, new_format="XYXY")
    # Older versions of torchvision take no places on the right and lower border.
    height, width = size
    last = places.new_tensor([width - 1, height - 1]).repeat(places.shape[-1] // 2)
    places = tv_tensors.wrap(places.clamp(max=last), like=places)
    moved = TF.elastic(places, displacement, nearest)
    if is_boxes:
        moved = TF.convert_bounding_box_format(moved, new_format=annotation.format)
    return moved


def elastic_displacement(
    largest: Tensor, uniforms: Tensor, height: int, width: int
) -> Tensor:
    """The source of each output pixel, relative to its own place: x and y, (B, H, W,
    2), in half sides.

    Row i, as [i : i + 1], is the displacement of torchvision's functional.elastic for
    image i and its annotations. A grid of 4 x 4 cells has a displacement of U(-largest,
    largest) at each knot, interpolated by cubic B-splines. It is smooth, never exceeds
    `largest`, and has no folds along a side for a largest displacement below 1/8.
    """
    import torch

    knots = CELLS + 3
    numbers = hashed(uniforms[:, 0], 2 * knots * knots).view(-1, 2, knots, knots)
    across, down = (_splines(side, uniforms.device) for side in (width, height))
    field = torch.einsum(
        "hi,bcij,wj->bhwc",
        down,
        numbers * 2 * largest.float()[:, None, None, None],
        across,
    )
    return field.contiguous()


@device_constant
def _splines(side: int, device: torch.device) -> Tensor:
    """Weights (side, CELLS + 3) of the knots at each pixel's centre; they sum to 1."""
    import torch

    place = (torch.arange(side) + 0.5) * (CELLS / side)
    distance = (place[:, None] - torch.arange(-1, CELLS + 2)).abs()
    return (
        ((2 - distance).clamp(min=0) ** 3 - 4 * (1 - distance).clamp(min=0) ** 3) / 6
    ).to(device)
