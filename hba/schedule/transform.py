"""A schedule as a torchvision v2 transform."""

import math
import operator
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torchvision import tv_tensors

from hba.errors import SettingsError
from hba.operations.apply import color_for, fill_for
from hba.packed import apply_to_all
from hba.policy.annotations import ANNOTATIONS, Pairs
from hba.policy.draw import (
    apply_operations,
    check_masks_hold,
    draw_with_trace,
    mean_probabilities,
)
from hba.policy.module import check_range
from hba.policy.player import Place
from hba.policy.schedule_transform import ScheduleTransform
from hba.policy.tables import tables_of
from hba.utils.settings import number, whole_number


class FollowsSchedule(Place):
    """A module with a place in a Schedule, at first the last epoch; DataLoader workers
    follow, persistent ones too.
    """

    schedule: Any
    """A Schedule, whose module imports this one."""

    def set_epoch(self, epoch: int, epochs: int | None = None) -> None:
        """Use the schedule's policy for an epoch of a training, counted from 0.

        Args:
            epoch: Counted from 0.
            epochs: Length of the training, to which the schedule is stretched (see
                Schedule.stretched). None is for a training with as many epochs as the
                schedule. It warns, because a shorter training would end before the
                schedule, unless the schedule was stretched.

        Raises:
            SettingsError: For an epoch that does not exist.
        """
        length = self.epochs if epochs is None else whole_number("epochs", epochs)
        epoch = whole_number("epoch", epoch)
        if not 0 <= epoch < length:
            raise SettingsError(
                f"epoch must lie in [0, {length - 1}], got {epoch}; call"
                " set_epoch(epoch, epochs)"
            )
        if epochs is not None:
            super().set_epoch(epoch, length)
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


class PolicyTransform(FollowsSchedule, ScheduleTransform):
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
    lacks moves_pixels. keypoint_pairs: numbers of the keypoints of an image, from 0,
    that its mirror image exchanges, such as those of left and right eye.

    set_epoch and set_progress choose the place, at first the last epoch, for DataLoader
    workers too, even persistent. Each image draws its magnitudes and probabilities
    around the policy by the spread, from torch's default generator, which DataLoader
    seeds for each worker.
    """

    image_forms = (
        "images must be PIL images of mode L or RGB, uint8 NumPy arrays (H, W), (H, W,"
        " 1) or (H, W, 3), or tensors (..., C, H, W), uint8 or floating point, with C 1"
        " or 3, or as many as the schedule's fill has; give other levels as a float"
        " tensor scaled to [0, 1] by the maximum of the whole data set"
    )

    def __init__(
        self, schedule: Any, mask_fill: float = 0, keypoint_pairs: Pairs = ()
    ) -> None:
        space = schedule.space
        super().__init__(
            operations={operation.name: operation for operation in space.on_images},
            tables=tables_of(space, schedule.values, schedule.spread),
            fill={},
            mask_fill=number("mask_fill", mask_fill),
            keypoint_pairs=_checked_pairs(keypoint_pairs),
        )
        self.schedule = schedule
        self._cached: tuple[float, dict[Any, Any]] = (math.nan, {})
        self._checked: set[torch.device] = set()

    def __getstate__(self) -> dict[str, Any]:
        return {
            **super().__getstate__(),
            "_cached": (math.nan, {}),
            "_checked": set(),
        }

    def color(self, n_channels: int) -> tuple[float, ...]:
        return color_for(n_channels, self.schedule.fill)

    def make_params(self, flat_inputs: list[Any], label: Any = None) -> dict[str, Any]:
        """Make one draw for all images of the sample, which must have the same batch
        size. label: as in ScheduleTransform.
        """
        images = self.images_of(flat_inputs)
        first = images[0]
        if not isinstance(first, Tensor):
            return self.draw(label)
        for image in images:
            self._check(image)
        is_video = isinstance(first, tv_tensors.Video)
        n_images = math.prod(first.shape[: -4 if is_video else -3])
        if is_video or len(images) < len(flat_inputs):
            if n_images > 1:
                raise TypeError(
                    "videos and annotations must be for a single draw, got"
                    f" {tuple(first.shape)}"
                )
        elif n_images != 1 or first.device.type != "cpu":
            means, spread = self._row_on(first.device)
            sample, _ = draw_with_trace(
                self.schedule.space,
                means,
                n_images,
                spread=spread,
                labels=None if label is None else self._labels(label, first, n_images),
            )
            return {"sample": sample, "label": sample.labels}
        return self.draw(label)

    def _labels(self, label: Any, images: Tensor, n_images: int) -> Tensor:
        """Labels (B,), int64, on the device of the images."""
        labels = torch.as_tensor(label, dtype=torch.int64, device=images.device)
        if labels.numel() != n_images:
            raise TypeError(
                f"there must be a label for each of {n_images} images, got"
                f" {tuple(labels.shape)}"
            )
        return labels.reshape(n_images)

    def _check(self, image: Tensor) -> None:
        """Raise TypeError for a tensor that is no image, and SettingsError for floats
        that do not lie in [0, 1].
        """
        channels = (1, 3, len(self.schedule.fill))
        is_image = image.ndim >= 3 and image.shape[-3] in channels
        is_number = image.dtype == torch.uint8 or image.is_floating_point()
        if not (is_image and is_number):
            raise TypeError(
                f"{self.image_forms}, got {image.dtype} of shape {tuple(image.shape)}"
            )
        check_range(image, self._checked)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        if isinstance(inpt, tv_tensors.Mask):
            check_masks_hold(self.mask_fill, inpt.dtype)
        if isinstance(inpt, np.ndarray):
            planes = np.atleast_3d(inpt).transpose(2, 0, 1)
            images = torch.from_numpy(np.array(planes, order="C"))[None]
            fill = fill_for(images, self.schedule.fill)
            (planes,) = apply_to_all(params["drawn"], images, fill).numpy()
            return np.stack([*planes], axis=-1).reshape(inpt.shape)
        if isinstance(inpt, Tensor) and not isinstance(inpt, ANNOTATIONS):
            images = _to_batch(inpt)
            fill = fill_for(images, self.schedule.fill)
            if "sample" in params:
                sample = params["sample"]
                result = apply_operations(self.schedule.space, sample, images, fill)
            else:
                result = apply_to_all(params["drawn"], images, fill)
            return tv_tensors.wrap(result.to(inpt.dtype).reshape(inpt.shape), like=inpt)
        return super().transform(inpt, params)

    def _row_on(self, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """The current policy on a device, float32: values with mean probabilities and
        spread (n,), None for 0. It is cached.
        """
        if self._cached[0] != self.position:
            self._cached = (self.position, {})
        position, rows = self._cached
        if device not in rows:
            space = self.schedule.space
            spread = self.schedule.spread_at(position)
            values = torch.tensor(
                self.schedule.values_at(position), dtype=torch.float32, device=device
            )
            # None is faster than a spread of zeros.
            around = (
                torch.tensor(spread, dtype=torch.float32, device=device)
                if spread.any()
                else None
            )
            rows[device] = mean_probabilities(space, values, around), around
        means, around = rows[device]
        return means, around


def _to_batch(images: Tensor) -> Tensor:
    """Reshape images (..., C, H, W) to (B, C, H, W), uint8, float32 or float64 in [0,
    1].
    """
    pixels = images.as_subclass(Tensor)
    # Without pixels, -1 could mean any number of images.
    pixels = pixels.reshape(math.prod(pixels.shape[:-3]), *pixels.shape[-3:])
    if pixels.dtype == torch.uint8:
        return pixels
    return (pixels if pixels.dtype == torch.float64 else pixels.float()).clamp(0, 1)


def _checked_pairs(pairs: Any) -> Pairs:
    """Pairs of whole numbers from 0, each of which occurs once. Raises SettingsError
    for anything else.
    """
    try:
        checked = [
            (operator.index(first), operator.index(second)) for first, second in pairs
        ]
    except (TypeError, ValueError):
        checked = [(-1, -1)]
    numbers = [number for pair in checked for number in pair]
    if min(numbers, default=0) < 0 or len({*numbers}) < len(numbers):
        raise SettingsError(
            "keypoint_pairs must be pairs of different whole numbers from 0, such as"
            f" [(1, 2), (3, 4)], got {pairs!r:.60}"
        )
    return checked
