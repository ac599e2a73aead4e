"""Annotations of an image: moves boxes, masks and keypoints in the same way as its
pixels.

Convention:
    Places are in pixels from the top left corner, (0, 0) to (width, height); the centre
        of the first pixel is at 0.5.
    As in hba/operations/geometric.py, a map leads from a place in the result to its
        source in the image before.
    Annotations use the inverse.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as TF

from hba.operations.geometric import (
    Maps,
    affine_maps,
    check_mask_fill,
    matrices,
    warp,
)
from hba.operations.image_operation import ImageOperation
from hba.policy.player import OpSample

# Exported files contain the rest of this module.

KEYPOINTS: tuple[type, ...] = ()
"""Before 0.23, torchvision had neither keypoints nor rotated boxes."""
if hasattr(tv_tensors, "KeyPoints"):
    KEYPOINTS = (tv_tensors.KeyPoints,)
ANNOTATIONS = (tv_tensors.BoundingBoxes, tv_tensors.Mask, *KEYPOINTS)
Size = tuple[int, int]
"""Height and width of an image."""
Pairs = Sequence[tuple[int, int]]
"""Numbers of keypoints, from 0."""


def unmovable(operations: Iterable[ImageOperation]) -> list[str]:
    """Names of operations for which it is unknown how they move the content of an
    image.
    """
    return [
        operation.name
        for operation in operations
        if operation.moves_pixels is None
        or (
            operation.moves_pixels
            and operation.interpolation is None
            and operation.on_annotation is None
        )
    ]


def move_annotation(
    annotation: Any,
    drawn: Iterable[OpSample],
    mask_fill: float = 0,
    keypoint_pairs: Pairs = (),
) -> Any:
    """Apply the operations drawn for an image to its annotation.

    Masks take the nearest pixel, and mask_fill outside the image. A box becomes the
    smallest one around its moved corners, clamped to the image as in torchvision. After
    Elastic, boxes and keypoints are only approximate, as in torchvision.

    Args:
        annotation: tv_tensors.BoundingBoxes, Mask or KeyPoints.
        drawn: As draw_for_one returns them.
        mask_fill: The value of pixels of a mask that operations uncover.
        keypoint_pairs: Numbers of keypoints that a mirror image exchanges, such as
            those of left and right eye.

    Returns:
        An annotation of the same type, dtype and shape.

    Raises:
        ValueError: For rotated boxes, and if a mask cannot hold mask_fill.
    """
    if isinstance(annotation, tv_tensors.Mask):
        check_mask_fill(mask_fill, annotation.dtype)
    moves = [sample for sample in drawn if sample.operation.moves_pixels]
    if keypoint_pairs and isinstance(annotation, KEYPOINTS):
        mirrored = [is_mirror(sample, _size_of(annotation)) for sample in moves]
        if sum(mirrored) % 2:
            annotation = exchanged(annotation, keypoint_pairs)
    for has_map, group in itertools.groupby(
        moves, lambda sample: sample.operation.interpolation is not None
    ):
        if has_map:
            annotation = _move_by_maps(annotation, [*group], mask_fill)
            continue
        for sample in group:
            annotation = _distort(annotation, sample, mask_fill)
    return annotation


def is_mirror(sample: OpSample, size: Size) -> bool:
    """Whether an operation makes a mirror image, as flips do."""
    interpolation = sample.operation.interpolation
    if interpolation is None or 0 in size:
        return False
    matrix = matrices(_maps_of(sample, size), str(interpolation))[0]
    return bool(torch.linalg.det(matrix[:2, :2]) < 0)


def exchanged(points: Any, pairs: Pairs) -> Any:
    """Keypoints (..., N, 2) with those of each pair exchanged.

    Raises:
        ValueError: For a pair beyond N.
    """
    order = torch.arange(points.shape[-2])
    for first, second in pairs:
        if max(first, second) >= len(order):
            raise ValueError(
                f"keypoint_pairs must be numbers below {len(order)}, the number of"
                f" keypoints of an image, got {(first, second)}"
            )
        order[[first, second]] = order[[second, first]]
    values = points.as_subclass(Tensor)[..., order, :]
    return tv_tensors.wrap(values, like=points)


def _distort(annotation: Any, sample: OpSample, mask_fill: float) -> Any:
    """The annotation after an operation without affine map."""
    operation = sample.operation
    size = _size_of(annotation)
    if min(size) < 2 or not sample.magnitude:
        return annotation
    assert operation.on_annotation is not None
    magnitude = torch.tensor([sample.magnitude], dtype=torch.float64)
    uniforms = torch.tensor([sample.position[: operation.n_uniforms]])
    return operation.on_annotation(annotation, magnitude, uniforms, size, mask_fill)


def _size_of(annotation: Any) -> Size:
    is_mask = isinstance(annotation, tv_tensors.Mask)
    height, width = annotation.shape[-2:] if is_mask else annotation.canvas_size
    return height, width


def _move_by_maps(
    annotation: Any, samples: Sequence[OpSample], mask_fill: float
) -> Any:
    """The annotation after operations with affine maps, one after the other."""
    size = _size_of(annotation)
    if 0 in size:
        return annotation
    values = annotation.as_subclass(Tensor)
    if isinstance(annotation, tv_tensors.Mask):
        planes = values.reshape(1, -1, *size)
        fill = planes.new_full((planes.shape[1],), mask_fill)
        for sample in samples:
            maps = Maps(
                *(tensor.to(values.device) for tensor in _maps_of(sample, size))
            )
            planes = warp(planes, maps, fill, "nearest")
        return tv_tensors.wrap(planes.reshape(values.shape), like=annotation)
    whole = torch.eye(3, dtype=torch.float64)
    for sample in samples:
        interpolation = sample.operation.interpolation
        whole = whole @ matrices(_maps_of(sample, size), str(interpolation))[0]
    back = torch.linalg.inv(whole).to(values.device)
    is_boxes = isinstance(annotation, tv_tensors.BoundingBoxes)
    move = _move_boxes if is_boxes else _move_points
    places = move(tv_tensors.wrap(values.double(), like=annotation), back)
    rounded = places if values.is_floating_point() else places.round()
    return tv_tensors.wrap(rounded.to(values.dtype), like=annotation)


def _move_points(points: Any, back: Tensor) -> Tensor:
    """Move places (..., 2), x before y. back (3, 3): maps places before to places in
    the result.
    """
    return points.as_subclass(Tensor) @ back[:2, :2].T + back[:2, 2]


def _move_boxes(boxes: Any, back: Tensor) -> Tensor:
    corners = TF.convert_bounding_box_format(
        boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY
    )
    ends = corners.as_subclass(Tensor)
    four_corners = ends[..., [0, 1, 2, 1, 2, 3, 0, 3]].unflatten(-1, (4, 2))
    places = _move_points(four_corners, back)
    around = torch.cat([places.amin(dim=-2), places.amax(dim=-2)], dim=-1)
    inside = TF.clamp_bounding_boxes(tv_tensors.wrap(around, like=corners))
    return TF.convert_bounding_box_format(inside, new_format=boxes.format).as_subclass(
        Tensor
    )


def _maps_of(sample: OpSample, size: Size) -> Maps:
    magnitude = torch.tensor([sample.magnitude], dtype=torch.float64)
    position = torch.tensor([sample.position], dtype=torch.float64)
    return affine_maps(sample.operation, magnitude, position, *size)
