"""Mixing of batches by the policy of an epoch, and a schedule as a transform of batches
with their labels.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchvision.transforms import v2

from hba.errors import SettingsError
from hba.operations.operation import check_images
from hba.policy.space import SearchSpace
from hba.schedule.transform import FollowsSchedule
from hba.utils.settings import whole_number
from hba.utils.tensors import usual_types

COLUMNS = (
    "Mixup.probability",
    "Mixup.magnitude",
    "CutMix.probability",
    "CutMix.magnitude",
)
"""Names of hyperparameters, in the order of the fields of Mixing."""
LARGEST_ALPHA = 1000.0
LEAST_ALPHA = 0.005


@dataclass(frozen=True)
class Mixing:
    """How to mix a batch: by Mixup with one probability, otherwise by CutMix with
    another one.

    Each image is mixed with one other image of the batch. The share of the image itself
    is drawn once for the batch, from Beta(alpha, alpha); an alpha of 0 leaves the batch
    unchanged. A field is a number or a tensor () on the device of the images. Raises
    SettingsError for a probability outside [0, 1], and for an alpha outside [0, 1000].
    Ref: Zhang et al. 2018 (Mixup); Yun et al. 2019 (CutMix).
    """

    mixup_probability: float | Tensor = 0.0
    mixup_alpha: float | Tensor = 1.0
    cutmix_probability: float | Tensor = 0.0
    cutmix_alpha: float | Tensor = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            most = 1.0 if name.endswith("probability") else LARGEST_ALPHA
            if not isinstance(value, Tensor) and not 0 <= value <= most:
                raise SettingsError(f"{name} must lie in [0, {most:g}], got {value!r}")

    @staticmethod
    def of(space: SearchSpace, row: Sequence[float] | np.ndarray | Tensor) -> "Mixing":
        """The mixing of a policy with values (n,), on their device; probability 0 for
        operations that a space lacks.
        """
        names = space.names
        return Mixing(
            *(row[names.index(name)] if name in names else 0.0 for name in COLUMNS)
        )


class BatchTransform(FollowsSchedule, nn.Module):
    """Mixes batches as at the current place in the schedule, with torchvision's
    v2.MixUp and v2.CutMix.

    It takes images (B, C, H, W), floating point, normalised or not, and labels: whole
    numbers (B,), or one number for each class (B, n_classes). It returns new images and
    soft labels (B, n_classes), of the type of the images, which
    torch.nn.functional.cross_entropy takes. If the schedule mixes no images, it returns
    the same images and one-hot labels. It draws from torch's default generator of the
    CPU. Raises SettingsError for other images and labels.

    An alpha below 0.005 leaves the batch unchanged: nearly all shares would be 0 or 1,
    and PyTorch draws 0.5 for some. set_epoch and set_progress choose the place, at
    first the last epoch, for DataLoader workers too, even persistent.
    """

    def __init__(self, schedule: Any, n_classes: int) -> None:
        super().__init__(schedule.epochs)
        self.schedule = schedule
        self.n_classes = whole_number("n_classes", n_classes)

    @usual_types()
    def forward(self, images: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        check_images(images)
        targets = self._soft(torch.as_tensor(labels), images)
        if not self.schedule.space.mixing:
            return images, targets
        mixing = Mixing.of(self.schedule.space, self.schedule.values_at(self.position))
        of_mixup, of_cutmix = torch.rand(2).tolist()
        is_mixup = of_mixup < mixing.mixup_probability
        alpha = mixing.mixup_alpha if is_mixup else mixing.cutmix_alpha
        if (
            not (is_mixup or of_cutmix < mixing.cutmix_probability)
            or alpha < LEAST_ALPHA
        ):
            return images, targets
        # With the index of each image as its class, the soft labels are the shares of
        # the images in each mixture. Older versions of torchvision do not accept images
        # with several classes.
        mix = (v2.MixUp if is_mixup else v2.CutMix)(
            alpha=alpha, num_classes=len(images)
        )
        images, shares = mix(images, torch.arange(len(images), device=images.device))
        own_shares = shares.diagonal()[:, None].to(targets)
        return images, targets.roll(1, 0) * (1 - own_shares) + targets * own_shares

    def _soft(self, labels: Tensor, images: Tensor) -> Tensor:
        """The labels as floats (B, n_classes)."""
        shape = (len(images),)
        n = self.n_classes
        if labels.shape == (*shape, n):
            return labels.to(images)
        is_number = (
            labels.shape == shape
            and not labels.is_floating_point()
            and labels.dtype != torch.bool
        )
        # On another device, the host would wait to read values.
        if not is_number or (
            labels.device.type == "cpu" and ((labels < 0) | (labels >= n)).any()
        ):
            rule = (
                f"whole numbers below {n}, the number of classes, of shape {shape}, or"
                f" of shape {(*shape, n)}"
            )
            raise SettingsError(
                f"labels must be {rule}, got {labels.dtype} of shape"
                f" {tuple(labels.shape)}"
            )
        return F.one_hot(labels.long(), n).to(images)
