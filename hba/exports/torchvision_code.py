"""The code of an exported file for torchvision, which needs torchvision, PyTorch and
Pillow, but not hba.

hba/exports/python_file.py writes it into the file, below the modules of hba that it
uses. OPERATIONS, TABLES and FILL are the file's own.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from PIL import Image
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba.policy.player import OpSample, Place, Tables, draw_for_one
from hba.utils.tensors import usual_types

if TYPE_CHECKING:
    OPERATIONS: Mapping[str, "Operation"]
    TABLES: "Tables"
    FILL: Mapping[int, tuple[float, ...]]


# Exported files contain the rest of this module.


class Operation(NamedTuple):
    """One image operation: its function on a PIL image, and the arguments that follow
    the image.

    on_batches: the function takes images (1, C, H, W), float in [0, 1], instead.
    signed: the magnitude is negated with probability 0.5. resampling: PIL's filter, if
    pixels are moved.
    """

    function: Callable[..., Any]
    on_batches: bool = False
    moves_pixels: bool = False
    has_magnitude: bool = False
    signed: bool = False
    uses_fill: bool = False
    n_uniforms: int = 0
    resampling: Image.Resampling | None = None

    def apply_to_pil(
        self,
        image: Image.Image,
        magnitude: float,
        fill: tuple[float, ...],
        position: tuple[float, ...],
    ) -> Image.Image:
        """A new image. fill: in [0, 1], one number per channel. position: random
        numbers in [0, 1).
        """
        if self.on_batches:
            precision = torch.float64 if self.moves_pixels else torch.float32
            numbers = (
                torch.tensor([magnitude], dtype=precision),
                torch.tensor(fill),
                torch.tensor([position]),
            )
            changed = self.function(
                TF.pil_to_tensor(image)[None] / 255, *self._taken(*numbers)
            )[0]
            return TF.to_pil_image(
                changed.mul(255).round().clamp(0, 255).byte(), mode=image.mode
            )
        taken = self._taken(
            magnitude, tuple(round(255 * one) for one in fill), position
        )
        return self.function(
            image, *taken, *([] if self.resampling is None else [self.resampling])
        )

    def _taken(self, magnitude: Any, fill: Any, position: Any) -> list[Any]:
        takes = (
            (magnitude, self.has_magnitude),
            (fill, self.uses_fill),
            (position, self.n_uniforms > 0),
        )
        return [argument for argument, is_taken in takes if is_taken]


def is_image_tensor(given: Any) -> bool:
    """Whether it is a plain tensor with the dimensions of an image; labels and vectors
    have fewer.
    """
    return (
        isinstance(given, Tensor)
        and not isinstance(given, tv_tensors.TVTensor)
        and given.ndim >= 3
    )


class ScheduleTransform(Place, v2.Transform):  # type: ignore[misc]
    """Augments one image by the policy of the current place in the schedule; returns it
    in the same form.

    fill: for each number of channels, the colour in [0, 1] of areas that operations
    uncover.

    Takes a PIL image of mode L or RGB, or a uint8 tensor (C, H, W) with C 1 or 3, alone
    or in a sample with labels, which pass through. Place it before the normalisation.
    Boxes, masks, keypoints and videos are refused: they would no longer fit their
    image. Every image gets a draw of its own, by torch's default generator.
    """

    _transformed_types = (Image.Image, tv_tensors.Image, is_image_tensor)

    def __init__(
        self,
        operations: Mapping[str, Operation],
        tables: Tables,
        fill: Mapping[int, tuple[float, ...]],
    ) -> None:
        super().__init__()
        self.begin(operations, tables, fill)

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        for given in flat_inputs:
            if isinstance(given, tv_tensors.TVTensor) and not isinstance(
                given, tv_tensors.Image
            ):
                raise TypeError(
                    "this policy augments images for classification, got"
                    f" {type(given).__name__}"
                )
        images = [
            given
            for given in flat_inputs
            if isinstance(given, Image.Image | tv_tensors.Image)
        ]
        if not images and not any(map(is_image_tensor, flat_inputs)):
            raise TypeError(
                "found no PIL image and no tensor (C, H, W) in the sample; turn arrays"
                " into PIL images"
            )
        if len(images) > 1:
            raise TypeError(
                "found more than one image in the sample, and one may be a mask; give"
                " the image alone"
            )

    @usual_types()
    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        return {"drawn": draw_for_one(self.row())}

    @usual_types()
    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, Tensor):
            if (
                inpt.dtype != torch.uint8
                or inpt.ndim != 3
                or inpt.shape[0] not in (1, 3)
            ):
                rule = (
                    f"a tensor must be uint8 (C, H, W) with C 1 or 3, got {inpt.dtype}"
                    f" {tuple(inpt.shape)}"
                )
                raise TypeError(
                    f"{rule}; place the policy before ToDtype and before images become"
                    " a batch"
                )
            image = self._augmented(TF.to_pil_image(inpt), params["drawn"])
            return tv_tensors.wrap(TF.pil_to_tensor(image).to(inpt.device), like=inpt)
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
        return self._augmented(inpt, params["drawn"])

    # Their names before torchvision 0.21.
    _check_inputs, _get_params, _transform = check_inputs, make_params, transform

    def _augmented(self, image: Image.Image, drawn: list[OpSample]) -> Image.Image:
        result = image.copy()
        if 0 in image.size:
            return result
        for operation, magnitude, position in drawn:
            fill = self.fill[len(image.getbands())]
            uniforms = position[: operation.n_uniforms]
            result = operation.apply_to_pil(result, magnitude, fill, uniforms)
        return result


def transform() -> ScheduleTransform:
    """The schedule as a transform, in its last epoch until you call set_epoch or
    set_progress.
    """
    return ScheduleTransform(OPERATIONS, TABLES, FILL)  # noqa: F821
