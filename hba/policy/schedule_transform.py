"""A schedule as a torchvision v2 transform of one image and its annotations.

hba.PolicyTransform is this transform for further kinds of images. Exported files
contain it, with the modules of hba that it uses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba.operations.image_operation import ImageOperation
from hba.operations.on_pil import apply_to_pil
from hba.policy.annotations import ANNOTATIONS, Pairs, move_annotation, unmovable
from hba.policy.player import OpSample, Player, Tables, draw_for_one, move_class
from hba.utils.tensors import usual_types

# Exported files contain the rest of this module.


def is_plain_tensor(entry: Any) -> bool:
    """Whether a tensor may be an image: it has at least three dimensions; labels and
    vectors have fewer.
    """
    return (
        isinstance(entry, Tensor)
        and not isinstance(entry, tv_tensors.TVTensor)
        and entry.ndim >= 3
    )


def is_label(entry: Any) -> bool:
    """Whether it is an integer, or a tensor of integers of at most one dimension."""
    if isinstance(entry, Tensor):
        is_integer = not entry.is_floating_point() and entry.dtype != torch.bool
        return entry.ndim <= 1 and is_integer
    return isinstance(entry, int | np.integer) and not isinstance(entry, bool)


def in_form(label: Any, moved: Any) -> Any:
    """The label of a moved image, in the form of the label before."""
    if isinstance(label, Tensor):
        return torch.as_tensor(moved).to(label).reshape(label.shape)
    return int(moved)


def is_image_array(entry: Any) -> bool:
    """Whether it is a uint8 NumPy array (H, W), (H, W, 1) or (H, W, 3)."""
    is_bytes = isinstance(entry, np.ndarray) and entry.dtype == np.uint8
    return is_bytes and (
        entry.ndim == 2 or (entry.ndim == 3 and entry.shape[2] in (1, 3))
    )


IMAGES = (Image.Image, tv_tensors.Image, tv_tensors.Video)


def is_image(entry: Any) -> bool:
    """Whether it may be an image."""
    return isinstance(entry, IMAGES) or is_image_array(entry) or is_plain_tensor(entry)


class ScheduleTransform(Player, v2.Transform):  # type: ignore[misc]
    """Augments one image by the policy of the current place in the schedule, and moves
    its boxes, masks and keypoints with it.

    It takes a PIL image of mode L or RGB, a uint8 NumPy array (H, W), (H, W, 1) or (H,
    W, 3), or a uint8 tensor (C, H, W) with C 1 or 3, alone or in a sample of any
    structure, and returns the same form. Labels and everything else that is no image
    pass through; so do tensors next to a PIL image or a tv_tensors.Image. All images of
    a sample that are tv_tensors.Image, and all frames of a tv_tensors.Video, get one
    draw, by torch's default generator. Place it before the normalisation.

    If symmetries hold only for some classes, a call with an image and its label, an
    integer, returns both, the label being that of the moved image. Any other call
    applies only the moves that keep every class.

    Raises TypeError for a sample without an image or with two, because one of them may
    be a mask, for other images, and for annotations if it is unknown how an operation
    moves them.
    """

    _transformed_types = (
        *IMAGES,
        *ANNOTATIONS,
        is_image_array,
        is_plain_tensor,
    )
    image_forms = (
        "images must be PIL images of mode L or RGB, uint8 NumPy arrays (H, W), (H, W,"
        " 1) or (H, W, 3), or uint8 tensors (C, H, W) with C 1 or 3"
    )

    def __init__(
        self,
        operations: Mapping[str, ImageOperation],
        tables: Tables,
        fill: Mapping[int, tuple[float, ...]],
        mask_fill: float = 0,
        keypoint_pairs: Pairs = (),
    ) -> None:
        """Make the transform.

        Args:
            operations: By name.
            tables: Of the schedule.
            fill: For each number of channels, the colour in [0, 1] of areas that
                operations uncover.
            mask_fill: The value of pixels of masks there.
            keypoint_pairs: Numbers of keypoints that a mirror image exchanges.
        """
        super().__init__(operations, tables)
        self.fill = fill
        self.mask_fill = mask_fill
        self.keypoint_pairs = keypoint_pairs

    def color(self, n_channels: int) -> tuple[float, ...]:
        """The colour in [0, 1] of areas that operations uncover."""
        return self.fill[n_channels]

    @usual_types()
    def forward(self, *inputs: Any) -> Any:
        if self.tables.class_moves and len(inputs) == 2:
            image, label = inputs
            if is_image(image) and is_label(label):
                params = self.make_params([image], label)
                return self.transform(image, params), in_form(label, params["label"])
        return super().forward(*inputs)

    def draw(self, label: Any = None) -> dict[str, Any]:
        """A draw for one image, and its label after it."""
        number = None if label is None else int(label)
        moves = self.tables.class_moves
        n_classes = len(next(iter(moves.values()))[0]) if moves else 0
        if number is not None and not 0 <= number < n_classes:
            raise ValueError(
                f"a label must lie in [0, {n_classes - 1}], the classes of the policy,"
                f" got {number}"
            )
        drawn, moved = move_class(draw_for_one(self.row()), number, moves)
        return {"drawn": drawn, "label": moved}

    def images_of(self, flat_inputs: list[Any]) -> list[Any]:
        """The images of a sample.

        Raises:
            TypeError: Without an image, with two, and with annotations that cannot be
                moved.
        """
        images = [entry for entry in flat_inputs if not isinstance(entry, ANNOTATIONS)]
        are_several = len(images) > 1 and all(
            isinstance(image, tv_tensors.Image) for image in images
        )
        if len(images) != 1 and not are_several:
            remedy = (
                "wrap a mask as tv_tensors.Mask, and images that should get the same"
                " draw as tv_tensors.Image"
            )
            raise TypeError(
                f"a sample must hold one image, got {len(images)}; {remedy};"
                f" {self.image_forms}"
            )
        has_annotations = len(images) < len(flat_inputs)
        if has_annotations and (names := unmovable(self.operations.values())):
            raise TypeError(
                "boxes, masks and keypoints must move with the image, but"
                f" {', '.join(names)} does not say how; register an operation that"
                " moves no pixels with moves_pixels=False"
            )
        return images

    def make_params(self, flat_inputs: list[Any], label: Any = None) -> dict[str, Any]:
        """Make one draw for the sample. label: of its image; None if it is unknown."""
        self.images_of(flat_inputs)
        return self.draw(label)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        drawn = params["drawn"]
        if isinstance(inpt, ANNOTATIONS):
            return move_annotation(inpt, drawn, self.mask_fill, self.keypoint_pairs)
        if isinstance(inpt, np.ndarray):
            channels = inpt.reshape(inpt.shape[:2]) if inpt.shape[2:] == (1,) else inpt
            picture = self._augment(Image.fromarray(channels), drawn)
            return np.array(picture).reshape(inpt.shape)
        if isinstance(inpt, Tensor):
            return self._augment_tensor(inpt, drawn)
        if inpt.mode not in ("L", "RGB"):
            # PIL's convert() clips more than 8 bits.
            remedy = (
                "scale it to 8 bits, mode L"
                if inpt.mode[0] in "IF"
                else "use .convert('RGB')"
            )
            raise TypeError(
                f"a PIL image must be of mode L or RGB, got {inpt.mode}; {remedy}"
            )
        return self._augment(inpt, drawn)

    # Names of the two methods before torchvision 0.21.
    def _get_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return self.make_params(flat_inputs)

    def _transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.transform(inpt, params)

    def _augment(self, picture: Image.Image, drawn: list[OpSample]) -> Image.Image:
        return apply_to_pil(drawn, picture, self.color(len(picture.getbands())))

    def _augment_tensor(self, images: Tensor, drawn: list[OpSample]) -> Tensor:
        """Augment an image, or the frames of a video (..., C, H, W)."""
        is_frames = images.ndim == 3 or isinstance(images, tv_tensors.Video)
        is_image = is_frames and images.shape[-3] in (1, 3)
        if images.dtype != torch.uint8 or not is_image:
            raise TypeError(
                f"{self.image_forms}, got {images.dtype} {tuple(images.shape)}; place"
                " the policy before ToDtype and before images become a batch"
            )
        pixels = images.as_subclass(Tensor)
        frames = pixels.reshape(math.prod(pixels.shape[:-3]), *pixels.shape[-3:])
        new_frames = [
            TF.pil_to_tensor(self._augment(TF.to_pil_image(frame), drawn))
            for frame in frames
        ]
        result = torch.stack(new_frames).reshape(pixels.shape).to(pixels.device)
        return tv_tensors.wrap(result, like=images)
