"""A schedule as a torchvision v2 transform."""

import copy
import math
import warnings
from typing import Any, Self

import numpy as np
import PIL.Image
import torch
from torch import Tensor, nn
from torchvision import tv_tensors
from torchvision.transforms import v2

from hba.errors import SettingsError
from hba.operations.apply import color_for, fill_for
from hba.packed import apply_to_all, apply_to_pil
from hba.policy.annotations import ANNOTATIONS, moved, unmovable
from hba.policy.draw import apply_operations, draw_with_trace, mean_probabilities
from hba.policy.module import check_range
from hba.policy.player import SharedNumber, draw_for_one
from hba.policy.single_image import plain_row
from hba.utils.settings import number, whole_number
from hba.utils.tensors import usual_types

IMAGE_FORMS = (
    "images must be PIL images of mode L or RGB, uint8 NumPy arrays (H, W), (H, W, 1)"
    " or (H, W, 3), or tensors (..., C, H, W), uint8 or floating point, with C 1 or 3,"
    " or as many as the schedule's fill has; give other levels as a float tensor scaled"
    " to [0, 1] by the maximum of the whole data set"
)
IMAGE_TENSORS = (tv_tensors.Image, tv_tensors.Video)


def _is_plain_tensor(given: Any) -> bool:
    """Whether a tensor may be an image: it has at least three dimensions; labels and
    vectors have fewer.
    """
    return (
        isinstance(given, Tensor)
        and not isinstance(given, tv_tensors.TVTensor)
        and given.ndim >= 3
    )


def _is_image_array(given: Any) -> bool:
    is_bytes = isinstance(given, np.ndarray) and given.dtype == np.uint8
    return is_bytes and (
        given.ndim == 2 or (given.ndim == 3 and given.shape[2] in (1, 3))
    )


class FollowsSchedule(nn.Module):
    """A module with a place in a schedule, at first the last epoch; DataLoader workers
    follow, persistent ones too.
    """

    def __init__(self, schedule: Any) -> None:
        # schedule is a Schedule, whose module imports this one.
        super().__init__()
        self.schedule = schedule
        # A row number. Worker processes hold copies of this object, but see the same
        # number.
        self._position = SharedNumber(schedule.epochs - 1)

    def set_epoch(self, epoch: int, epochs: int | None = None) -> None:
        """Use the schedule's policy for an epoch of a training, counted from 0.

        epochs: length of the training, to which the schedule is stretched (see
        Schedule.stretched). None is for a training with as many epochs as the schedule.
        It warns, because a shorter training would end before the schedule, unless the
        schedule was stretched. Raises SettingsError for an epoch that does not exist.
        """
        length = (
            self.schedule.epochs if epochs is None else whole_number("epochs", epochs)
        )
        epoch = whole_number("epoch", epoch)
        if not 0 <= epoch < length:
            raise SettingsError(
                f"epoch must lie in [0, {length - 1}], got {epoch}; call"
                " set_epoch(epoch, epochs)"
            )
        if epochs is not None:
            self.set_progress(epoch / (length - 1) if length > 1 else 0.5)
            return
        if length > 1 and not self.schedule.is_stretched:
            text = (
                f"set_epoch(epoch) is right only for a training of {length} epochs, the"
                " length of the schedule"
            )
            warnings.warn(
                f"{text}; call set_epoch(epoch, epochs) with the epochs of your"
                " training",
                stacklevel=2,
            )
        self._position.value = epoch

    def set_progress(self, fraction: float) -> None:
        """Use the place at a fraction in [0, 1] of the schedule, with linear
        interpolation between epochs.
        """
        self._position.value = self.schedule.position(fraction)

    @property
    def position(self) -> float:
        """The current epoch of the schedule, counted from 0; fractional between two
        epochs.
        """
        return self._position.value

    def extra_repr(self) -> str:
        return f"epochs={self.schedule.epochs}, position={self.position:g}"

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """A copy that shares the place: set_epoch of one of them moves both."""
        return copy.copy(self)


class PolicyTransform(FollowsSchedule, v2.Transform):  # type: ignore[misc]
    """Augments images by the policy at the current place in the schedule.

    It takes a PIL image (mode L or RGB), a tv_tensors.Image, a uint8 NumPy array of
    shape (H, W), (H, W, 1) or (H, W, 3), or a tensor, uint8 or floating point in [0,
    1], of shape (..., C, H, W) with C 1 or 3, or the number of channels of the
    schedule's fill. Type, dtype and size do not change. Three channels are red, green
    and blue. Every image of a batch gets its own draw. PIL augments PIL images; uint8
    arrays and tensors on a CPU become PIL's results. Floats, and uint8 tensors on other
    devices, are within one grey level of them after one operation; floats are not
    rounded between operations. With Numba, uint8 batches on a CPU take a fraction of
    the time.

    Place it before the normalisation: floats far outside [0, 1] raise an error, on a
    GPU only in the first batch.

    A sample, of any structure, contains one image. Labels and everything else that is
    no image pass through. So do tensors of three or more dimensions next to a PIL image
    or a tv_tensors.Image; without these, the first such tensor is the image. Raises
    TypeError for a sample without an image or with two, because one of them may be a
    mask. Only several tv_tensors.Image are accepted; they get the same draw.

    tv_tensors.BoundingBoxes, Mask and KeyPoints of a single image move like its pixels
    (hba/policy/annotations.py). mask_fill: the value of pixels of a mask that are
    uncovered, 0 by default. SettingsError if a mask cannot hold it. All frames of a
    tv_tensors.Video get one draw. Raises TypeError for annotations if an operation
    lacks moves_pixels.

    set_epoch and set_progress choose the place, at first the last epoch, for DataLoader
    workers too, even persistent. Each image draws its magnitudes and probabilities
    around the policy by the spread, from torch's default generator, which DataLoader
    seeds for each worker.
    """

    _transformed_types = (
        PIL.Image.Image,
        *IMAGE_TENSORS,
        *ANNOTATIONS,
        _is_image_array,
        _is_plain_tensor,
    )

    def __init__(self, schedule: Any, mask_fill: float = 0) -> None:
        super().__init__(schedule)
        self.mask_fill = number("mask_fill", mask_fill)
        self._cached: tuple[float, dict[Any, Any]] = (math.nan, {})
        self._checked: set[torch.device] = set()

    def __getstate__(self) -> dict[str, Any]:
        """Without what is kept from one call to the next, so that a pickle does not
        depend on calls.
        """
        return {**vars(self), "_cached": (math.nan, {}), "_checked": set()}

    @usual_types()
    def forward(self, *inputs: Any) -> Any:
        return super().forward(*inputs)

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:
        """Make one draw for all images of the sample, which must have the same batch
        size.
        """
        images = [given for given in flat_inputs if not isinstance(given, ANNOTATIONS)]
        if len(images) != 1 and not (
            images and all(isinstance(given, tv_tensors.Image) for given in images)
        ):
            remedy = (
                "wrap a mask as tv_tensors.Mask, and images that should get the same"
                " draw as tv_tensors.Image"
            )
            raise TypeError(
                f"a sample must hold one image, got {len(images)}; {remedy};"
                f" {IMAGE_FORMS}"
            )
        first = images[0]
        is_annotated = len(images) < len(flat_inputs)
        if is_annotated and (names := unmovable(self.schedule.space.operations)):
            rule = (
                "boxes, masks and keypoints must move with the image, but"
                f" {', '.join(names)} does not say how"
            )
            raise TypeError(
                f"{rule}; register an operation that moves no pixels with"
                " moves_pixels=False"
            )
        if not isinstance(first, Tensor):
            return {"one_draw": draw_for_one(self._row_on(None))}
        for given in images:
            is_image = given.ndim >= 3 and given.shape[-3] in (
                1,
                3,
                len(self.schedule.fill),
            )
            if not is_image or not (
                given.dtype == torch.uint8 or given.is_floating_point()
            ):
                raise TypeError(
                    f"{IMAGE_FORMS}, got {given.dtype} of shape {tuple(given.shape)}"
                )
            check_range(given, self._checked)
        is_video = isinstance(first, tv_tensors.Video)
        n_images = math.prod(first.shape[: -4 if is_video else -3])
        if is_video or is_annotated:
            if n_images > 1:
                raise TypeError(
                    "videos and annotations must be for a single draw, got"
                    f" {tuple(first.shape)}"
                )
        elif n_images != 1 or first.device.type != "cpu":
            means, spread = self._row_on(first.device)
            return {
                "tensor_draw": draw_with_trace(
                    self.schedule.space, means, n_images, spread=spread
                )[0]
            }
        return {"one_draw": draw_for_one(self._row_on(None))}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, ANNOTATIONS):
            return moved(inpt, params["one_draw"], self.mask_fill)
        if isinstance(inpt, Tensor):
            images = _to_batch(inpt)
            fill = fill_for(images, self.schedule.fill)
            if "tensor_draw" in params:
                result = apply_operations(
                    self.schedule.space, params["tensor_draw"], images, fill
                )
            else:
                result = apply_to_all(params["one_draw"], images, fill)
            return tv_tensors.wrap(result.to(inpt.dtype).reshape(inpt.shape), like=inpt)
        if isinstance(inpt, np.ndarray):
            images = torch.from_numpy(
                np.array(np.atleast_3d(inpt).transpose(2, 0, 1), order="C")
            )[None]
            (planes,) = apply_to_all(
                params["one_draw"], images, fill_for(images, self.schedule.fill)
            ).numpy()
            return np.stack([*planes], axis=-1).reshape(inpt.shape)
        if inpt.mode not in ("L", "RGB"):
            # PIL's convert() would clip levels of more than 8 bits to 255.
            raise TypeError(f"{IMAGE_FORMS}, got {inpt.mode}")
        return apply_to_pil(
            params["one_draw"], inpt, color_for(len(inpt.mode), self.schedule.fill)
        )

    # The names in torchvision before 0.21.
    _get_params, _transform = make_params, transform

    def _row_on(self, device: torch.device | None) -> Any:
        """The current policy, float32: mean values and spread (n,) on a device, for
        None a PlainRow. It is cached.
        """
        if self._cached[0] != self.position:
            self._cached = (self.position, {})
        position, rows = self._cached
        if device not in rows:
            spread = self.schedule.spread_at(position)
            space = self.schedule.space
            values = torch.tensor(
                self.schedule.values_at(position), dtype=torch.float32, device=device
            )
            # None is faster than a spread of zeros.
            around = (
                torch.tensor(spread, dtype=torch.float32, device=device)
                if spread.any()
                else None
            )
            if device is None:
                rows[device] = plain_row(space, values, around)
            else:
                rows[device] = mean_probabilities(space, values, around), around
        return rows[device]


def _to_batch(given: Tensor) -> Tensor:
    """Reshape images (..., C, H, W) to (B, C, H, W), uint8, float32 or float64 in [0,
    1].
    """
    pixels = given.as_subclass(Tensor)
    # Without pixels, -1 could mean any number of images.
    pixels = pixels.reshape(math.prod(pixels.shape[:-3]), *pixels.shape[-3:])
    if pixels.dtype == torch.uint8:
        return pixels
    return (pixels if pixels.dtype == torch.float64 else pixels.float()).clamp(0, 1)
