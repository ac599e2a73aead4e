"""A schedule as a torchvision v2 transform."""

from typing import Any

import numpy as np
import PIL.Image
import torch
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as TF

from hba.errors import SettingsError
from hba.operations import color_for, fill_for
from hba.policy import apply_operations, draw_operations
from hba.schedule import Schedule
from hba.single_image import apply_to_pil, draw_for_one

PIL_MODES = ("L", "RGB")
NOT_SET = -1.0
PLAUSIBLE_RANGE = (-0.5, 1.5)
"""Beyond it, floating point images have been normalised."""


def _is_plain_tensor(given: Any) -> bool:
    return isinstance(given, Tensor) and not isinstance(given, tv_tensors.TVTensor)


class PolicyTransform(v2.Transform):  # type: ignore[misc]
    """Augments images by the policy of the current place in the schedule; gives back what it got.

    Takes a PIL image (mode L or RGB), a tv_tensors.Image, or a tensor, uint8 or floating point in [0, 1], of shape
    (..., C, H, W) with C 1 or 3; type, dtype and size stay. Every image of a batch gets its own draw. PIL images are
    augmented by PIL itself, which is several times faster for one image; each operation is within a grey level of the
    same on tensors. Place it before the normalisation. In a sample, labels and whatever else is not an image pass
    through; boxes, masks, keypoints and videos are refused, because they would no longer fit their image.

    set_epoch or set_progress choose the place in the schedule, and reach DataLoader workers, persistent ones too.
    Before the first of them, the last row is used: a fixed policy. Draws come from torch's default generator, which
    DataLoader seeds for each worker.
    """

    _transformed_types = (PIL.Image.Image, tv_tensors.Image, _is_plain_tensor)
    _refused_types = (tv_tensors.BoundingBoxes, tv_tensors.Mask, tv_tensors.Video, tv_tensors.KeyPoints)

    def __init__(self, schedule: Schedule) -> None:
        super().__init__()
        self.schedule = schedule
        # A row number in shared memory: worker processes hold copies of this object, but see the same number.
        self._position = torch.full((), NOT_SET, dtype=torch.float64).share_memory_()
        self._last_values: tuple[float, list[float]] | None = None
        self._last_tensors: dict[torch.device, Tensor] = {}

    def set_epoch(self, epoch: int) -> None:
        """Use the schedule's row for an epoch, counted from 0; stretch the schedule first if it is shorter."""
        if not 0 <= epoch < self.schedule.epochs:
            raise SettingsError(
                f"epoch must lie in [0, {self.schedule.epochs - 1}], got {epoch}; "
                "stretch the schedule to your epochs with schedule.stretched(epochs), or use set_progress"
            )
        self._position.fill_(float(epoch))

    def set_progress(self, fraction: float) -> None:
        """Use the place at a fraction in [0, 1] of the schedule, linear between rows; needs no stretching."""
        self._position.fill_(self.schedule.position(fraction))

    @property
    def position(self) -> float:
        """The current row number; fractional between two rows."""
        position = float(self._position)
        return self.schedule.epochs - 1 if position == NOT_SET else position

    def check_inputs(self, flat_inputs: list[Any]) -> None:
        for given in flat_inputs:
            if isinstance(given, self._refused_types):
                raise TypeError(f"{type(self).__name__} augments images for classification, got {type(given).__name__}")

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """One draw, used for every image of the sample; they must hold equally many."""
        if not flat_inputs:
            return {}
        space = self.schedule.space
        if all(isinstance(given, PIL.Image.Image) for given in flat_inputs):
            return {"drawn": draw_for_one(space, self._values())}
        images = _to_batch(flat_inputs[0])
        return {"draw": draw_operations(space, self._values_on(images.device), len(images))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if "drawn" in params:
            color = color_for(len(_checked_mode(inpt)), self.schedule.fill)
            return apply_to_pil(params["drawn"], inpt, color)
        images = _to_batch(inpt)
        fill = fill_for(images, self.schedule.fill)
        return _like(inpt, apply_operations(self.schedule.space, params["draw"], images, fill))

    def _values(self) -> list[float]:
        """The values of the current place, float32; computed anew when the place moves."""
        position = self.position
        if self._last_values is None or self._last_values[0] != position:
            self._last_values = (position, self.schedule.values_at(position).astype(np.float32).tolist())
            self._last_tensors = {}
        return self._last_values[1]

    def _values_on(self, device: torch.device) -> Tensor:
        """The same on a device, to which they travel once for each place."""
        values = self._values()
        if device not in self._last_tensors:
            self._last_tensors[device] = torch.tensor(values, device=device)
        return self._last_tensors[device]

    def extra_repr(self) -> str:
        return f"epochs={self.schedule.epochs}, position={self.position:g}"

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # A copy, unlike a worker's, gets a place of its own, which its own workers then share.
        self._position.share_memory_()


def _checked_mode(image: PIL.Image.Image) -> str:
    """The image's mode, a letter per channel, if it is one that can be augmented."""
    if image.mode not in PIL_MODES:
        raise TypeError(f"a PIL image must be of mode {' or '.join(PIL_MODES)}, got {image.mode}; use .convert('RGB')")
    return image.mode


def _to_batch(given: Any) -> Tensor:
    """Any accepted image or batch as floats (B, C, H, W) in [0, 1]."""
    if isinstance(given, PIL.Image.Image):
        _checked_mode(given)
        pixels = TF.pil_to_tensor(given)
    else:
        pixels = given.as_subclass(Tensor)
    if pixels.ndim < 3 or pixels.shape[-3] not in (1, 3):
        raise TypeError(f"images must be of shape (..., C, H, W) with C 1 or 3, got {tuple(pixels.shape)}")
    pixels = pixels.reshape(-1, *pixels.shape[-3:])
    if pixels.dtype == torch.uint8:
        return pixels.float() / 255
    if not pixels.is_floating_point():
        raise TypeError(f"images must be uint8 or floating point, got {pixels.dtype}")
    # Resizing overshoots a little; reading values back from another device would make the host wait.
    low, high = PLAUSIBLE_RANGE
    if pixels.device.type == "cpu" and pixels.numel() and not (pixels.min() >= low and pixels.max() <= high):
        raise ValueError(
            f"floating point images must lie in [0, 1], got [{pixels.min():g}, {pixels.max():g}]; "
            "place the policy before the normalisation"
        )
    return (pixels if pixels.dtype == torch.float64 else pixels.float()).clamp(0, 1)


def _like(given: Any, images: Tensor) -> Any:
    """Floats (B, C, H, W) in the type, dtype and shape of what was given."""
    if isinstance(given, PIL.Image.Image):
        return TF.to_pil_image(_to_uint8(images[0]), mode=given.mode)
    pixels = _to_uint8(images) if given.dtype == torch.uint8 else images.to(given.dtype)
    return tv_tensors.wrap(pixels.reshape(given.shape), like=given)


def _to_uint8(images: Tensor) -> Tensor:
    return images.mul(255).round().to(torch.uint8)
