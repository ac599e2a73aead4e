"""Annotations of an image: moves boxes, masks and keypoints in the same way as its
pixels.

Convention:
    Places are in pixels from the top left corner, (0, 0) to (width, height); the centre
        of the first pixel is at 0.5.
    As in hba/operations/geometric.py, a map leads from a place in the result to its
        source in the image before.
    Annotations use the inverse.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from hba.operations import Operation
from hba.operations.distortion import (
    elastic,
    elastic_displacement,
    perspective,
    perspective_points,
)
from hba.operations.geometric import Maps, affine_maps, warp
from hba.policy.draw import check_mask_fill
from hba.policy.player import OpSample

# Before 0.23, torchvision had neither keypoints nor rotated boxes.
KEYPOINTS = tuple(
    kind for kind in (getattr(tv_tensors, "KeyPoints", None),) if kind is not None
)
ANNOTATIONS = (tv_tensors.BoundingBoxes, tv_tensors.Mask, *KEYPOINTS)
Size = tuple[int, int]
"""Height and width of an image."""


def unmovable(operations: Iterable[Operation]) -> list[str]:
    """Names of operations for which it is unknown how they move the content of an
    image.
    """
    known = perspective, elastic
    return [
        one.name
        for one in operations
        if one.moves_pixels is None
        or (one.moves_pixels and not one.interpolation and one.function not in known)
    ]


def moved(annotation: Any, drawn: Sequence[OpSample], mask_fill: float = 0) -> Any:
    """Apply the operations drawn for an image to its annotation; return one of the same
    type, dtype and shape.

    Masks take the nearest pixel, and mask_fill outside the image. A box becomes the
    smallest one around its moved corners, clamped to the image as in torchvision, which
    raises ValueError for rotated boxes. After Elastic, boxes and keypoints are only
    approximate, as in torchvision. Raises SettingsError if a mask cannot hold
    mask_fill.
    """
    if isinstance(annotation, tv_tensors.Mask):
        check_mask_fill(mask_fill, annotation.dtype)
    moves = [one for one in drawn if one.operation.moves_pixels]
    for has_map, group in itertools.groupby(
        moves, lambda one: one.operation.interpolation is not None
    ):
        steps = [*group]
        if has_map:
            annotation = _mapped(annotation, steps, mask_fill)
            continue
        for step in steps:
            annotation = _distorted(annotation, step, mask_fill)
    return annotation


def _distorted(annotation: Any, one: OpSample, mask_fill: float) -> Any:
    """The annotation after Perspective or Elastic, moved by torchvision."""
    magnitude = torch.tensor([one.magnitude], dtype=torch.float64)
    uniforms = torch.tensor([one.position[: one.operation.n_uniforms]])
    height, width = _size_of(annotation)
    if min(height, width) < 2 or not one.magnitude:
        return annotation
    if one.operation.function is perspective:
        start, end = perspective_points(magnitude, uniforms, height, width)
        return TF.perspective(
            annotation,
            start[0].tolist(),
            end[0].tolist(),
            InterpolationMode.NEAREST,
            fill=mask_fill,
        )
    displacement = elastic_displacement(magnitude, uniforms, height, width)
    return TF.elastic(
        annotation, displacement, InterpolationMode.NEAREST, fill=mask_fill
    )


def _size_of(annotation: Any) -> Size:
    is_mask = isinstance(annotation, tv_tensors.Mask)
    return tuple(annotation.shape[-2:] if is_mask else annotation.canvas_size)


def _mapped(annotation: Any, moves: Sequence[OpSample], mask_fill: float) -> Any:
    """The annotation after operations with affine maps, one after the other."""
    is_mask = isinstance(annotation, tv_tensors.Mask)
    size = _size_of(annotation)
    if 0 in size:
        return annotation
    given = annotation.as_subclass(Tensor)
    if is_mask:
        result = given.reshape(1, -1, *size)
        fill = result.new_full((result.shape[1],), mask_fill)
        for one in moves:
            maps = Maps(*(part.to(given.device) for part in _maps(one, size)))
            result = warp(result, maps, fill, "nearest")
        return tv_tensors.wrap(result.reshape(given.shape), like=annotation)
    whole = torch.eye(3, dtype=torch.float64)
    for one in moves:
        whole = whole @ _matrix(one, size)
    back = torch.linalg.inv(whole).to(given.device)
    moved_places = (
        _moved_boxes
        if isinstance(annotation, tv_tensors.BoundingBoxes)
        else _moved_points
    )
    result = moved_places(tv_tensors.wrap(given.double(), like=annotation), back)
    return tv_tensors.wrap(
        (result if given.is_floating_point() else result.round()).to(given.dtype),
        like=annotation,
    )


def _moved_points(points: Any, back: Tensor) -> Tensor:
    """Move places (..., 2), x before y. back (3, 3): maps places before to places in
    the result.
    """
    return points.as_subclass(Tensor) @ back[:2, :2].T + back[:2, 2]


def _moved_boxes(boxes: Any, back: Tensor) -> Tensor:
    corners = TF.convert_bounding_box_format(
        boxes, new_format=tv_tensors.BoundingBoxFormat.XYXY
    )
    places = _moved_points(
        corners.as_subclass(Tensor)[..., [0, 1, 2, 1, 2, 3, 0, 3]].unflatten(
            -1, (4, 2)
        ),
        back,
    )
    around = torch.cat([places.amin(dim=-2), places.amax(dim=-2)], dim=-1)
    inside = TF.clamp_bounding_boxes(tv_tensors.wrap(around, like=corners))
    return TF.convert_bounding_box_format(inside, new_format=boxes.format).as_subclass(
        Tensor
    )


def _maps(one: OpSample, size: Size) -> Maps:
    magnitude, position = (
        torch.tensor([given], dtype=torch.float64)
        for given in (one.magnitude, one.position)
    )
    return affine_maps(one.operation, magnitude, position, *size)


def _matrix(one: OpSample, size: Size) -> Tensor:
    """Matrix (3, 3), float64, of the map from the result to the image before."""
    a, b, c, d, e, f = _maps(one, size).exact[0].tolist()
    if one.operation.interpolation == "nearest" and (a, b, d, e) == (1, 0, 0, 1):
        # The image was shifted by whole pixels, as in PIL.
        c = math.floor(c + 0.5)
        f = math.floor(f + 0.5)
    return torch.tensor([[a, b, c], [d, e, f], [0, 0, 1]], dtype=torch.float64)
