"""What goes along with an image: boxes, masks and keypoints move as its pixels do.

Convention:
    Places are in pixels from the top left corner, (0, 0) to (width, height); the centre of the first pixel is at 0.5.
    An operation's map is from a place of its result to the place of the image before that is shown there, as in
    hba/operations/geometric.py. Annotations go the other way.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms.v2 import functional as TF

from hba.operations import Operation
from hba.operations.resample import Maps, warp
from hba.policy.single_image import OpSample

# Before 0.23, torchvision had neither keypoints nor rotated boxes.
KEYPOINTS = tuple(kind for kind in (getattr(tv_tensors, "KeyPoints", None),) if kind is not None)
ANNOTATIONS = (tv_tensors.BoundingBoxes, tv_tensors.Mask, *KEYPOINTS)

PLAIN_FORMATS = ("XYXY", "XYWH", "CXCYWH")
"""Of boxes whose sides are those of the image."""

Size = tuple[int, int]
"""Height and width of an image."""


class Move(NamedTuple):
    """One operation's map, for a single image, and whether pixels were taken from the nearest."""

    maps: Maps
    is_nearest: bool


def unmovable(operations: Iterable[Operation]) -> list[str]:
    """Names of operations of which nobody has said where they move what an image shows."""
    return [one.name for one in operations if one.moves_pixels is None or (one.moves_pixels and not one.interpolation)]


def moved(annotation: Any, drawn: Sequence[OpSample], size: Size) -> Any:
    """The annotation of an image of that size after what was drawn for the image; same type, dtype and shape.

    Masks show the nearest pixel, and 0 where they show what was outside. Boxes are the smallest around their moved
    corners, cut off at the image's border as torchvision does. Raises TypeError for what belongs to an image of another
    size, and for rotated boxes.
    """
    of_size = tuple(annotation.shape[-2:]) if isinstance(annotation, tv_tensors.Mask) else annotation.canvas_size
    if tuple(of_size) != size:
        raise TypeError(f"the {type(annotation).__name__} must be of the image's size {size}, got {tuple(of_size)}")
    moves = [_move(one, size) for one in drawn if one.operation.moves_pixels]
    if not moves or 0 in size:
        return annotation
    if isinstance(annotation, tv_tensors.Mask):
        return tv_tensors.wrap(_moved_mask(annotation.as_subclass(Tensor), moves), like=annotation)
    if isinstance(annotation, KEYPOINTS):
        points = _moved_places(annotation.as_subclass(Tensor).double(), moves)
        return tv_tensors.wrap(_as_before(points, annotation), like=annotation)
    return _moved_boxes(annotation, moves)


def _move(one: OpSample, size: Size) -> Move:
    magnitude = torch.tensor([one.magnitude], dtype=torch.float64)
    return Move(one.operation.kernel.maps(magnitude, *size), one.operation.interpolation == "nearest")


def _moved_mask(mask: Tensor, moves: Sequence[Move]) -> Tensor:
    """(..., H, W), each step as the image's pixels, so that both stay on each other."""
    planes = mask.reshape(1, -1, *mask.shape[-2:])
    nothing = planes.new_zeros(planes.shape[1])
    for move in moves:
        planes = warp(planes, Maps(*(part.to(mask.device) for part in move.maps)), nothing, "nearest")
    return planes.reshape(mask.shape)


def _moved_boxes(boxes: Any, moves: Sequence[Move]) -> Any:
    if boxes.format.value not in PLAIN_FORMATS:
        raise TypeError(f"boxes must be of a format that is not rotated, got {boxes.format.value}")
    exact = tv_tensors.wrap(boxes.as_subclass(Tensor).double(), like=boxes)
    corners = TF.convert_bounding_box_format(exact, new_format=tv_tensors.BoundingBoxFormat.XYXY)
    x0, y0, x1, y1 = corners.as_subclass(Tensor).unbind(-1)
    places = torch.stack([torch.stack(one, -1) for one in ((x0, y0), (x1, y0), (x1, y1), (x0, y1))], dim=-2)
    found = _moved_places(places, moves)
    around = torch.cat([found.amin(dim=-2), found.amax(dim=-2)], dim=-1)
    inside = TF.clamp_bounding_boxes(tv_tensors.wrap(around, like=corners))
    result = TF.convert_bounding_box_format(inside, new_format=boxes.format)
    return tv_tensors.wrap(_as_before(result.as_subclass(Tensor), boxes), like=boxes)


def _moved_places(places: Tensor, moves: Sequence[Move]) -> Tensor:
    """(..., 2) float64, x before y."""
    whole = torch.eye(3, dtype=torch.float64)
    for move in moves:
        whole = whole @ _matrix(move)
    back = torch.linalg.inv(whole).to(places.device)
    return places @ back[:2, :2].T + back[:2, 2]


def _matrix(move: Move) -> Tensor:
    """(3, 3) float64, of the map from results to images before."""
    a, b, c, d, e, f = move.maps.exact[0].tolist()
    if move.is_nearest and b == d == 0:
        # As PIL does, whole pixels were shifted.
        c, f = math.floor(c + 0.5), math.floor(f + 0.5)
    return torch.tensor([[a, b, c], [d, e, f], [0, 0, 1]], dtype=torch.float64)


def _as_before(numbers: Tensor, annotation: Tensor) -> Tensor:
    """In the annotation's dtype; whole numbers are the nearest."""
    return (numbers if annotation.is_floating_point() else numbers.round()).to(annotation.dtype)
