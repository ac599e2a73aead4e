"""Mixup and CutMix of a training batch, like torchvision's v2.MixUp and v2.CutMix, with
an explicit generator.

Nothing is copied to the host.
"""

import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.schedule.mixing import Mixing
from hba.tasks import ImageTask, MixedLabels
from hba.utils.tensors import whole_numbers


def check_can_augment(space: SearchSpace, task: ImageTask, owner: str) -> None:
    """Check that a space suits the labels: masks and numbers cannot be mixed, and masks
    move with pixels.

    Args:
        space: The space.
        task: The task of the labels.
        owner: What has the space, in the message.

    Raises:
        SettingsError: If they cannot be mixed, and an operation mixes images, or if
            they are masks, and an operation does not say whether it moves pixels.
    """
    if space.mixing and not task.can_mix:
        names = ", ".join(operation.name for operation in space.mixing)
        raise SettingsError(
            f"{owner} mixes images, but labels of {task.name} cannot be mixed; leave"
            f" out {names}, or choose another"
        )
    if not task.has_masks:
        return
    unknown = [row.name for row in space.on_images if row.moves_pixels is None]
    if unknown:
        raise SettingsError(
            f"{unknown[0]} must say whether it moves pixels, because masks move with"
            " them; give it moves_pixels"
        )


def mix(
    images: Tensor, labels: Tensor, mixing: Mixing, generator: torch.Generator
) -> tuple[Tensor, MixedLabels]:
    """Mix each image with the one before it in the batch, the first with the last.

    Mixing is linear with shares that sum to 1, so standardized images are mixed as
    images in [0, 1] are.

    Args:
        images: (B, C, H, W), floating point.
        labels: (B,) or (B, classes).
        mixing: Probabilities and shapes of Mixup and CutMix.
        generator: On the device of the images.
    """
    shares = draw_shares(mixing, images.shape[2], images.shape[3], generator)
    # In two steps, because MPS has no float64.
    image_share, other_share, label_share = (
        share.to(images.dtype).to(images.device)
        for share in (shares, 1 - shares, shares.mean())
    )
    return _before(images) * other_share + images * image_share, MixedLabels(
        labels, _before(labels), label_share
    )


def draw_shares(
    mixing: Mixing, height: int, width: int, generator: torch.Generator
) -> Tensor:
    """Draw the share of the image itself at each pixel, for a whole batch.

    Its mean is the share of the image's labels. Mixup: one number. CutMix: 0 in a box,
    1 outside. Without mixing: 1.

    Returns:
        float64 (H, W).
    """
    device = generator.device
    numbers = torch.rand(6, generator=generator, dtype=torch.float64, device=device)
    is_mixup = numbers[0] < mixing.mixup_probability
    is_cutmix = ~is_mixup & (numbers[1] < mixing.cutmix_probability)
    alpha = (
        is_mixup.double() * mixing.mixup_alpha
        + (~is_mixup).double() * mixing.cutmix_alpha
    )
    # A draw of Gamma(alpha) is one of Gamma(alpha + 1) times U^(1 / alpha). Logarithms
    # do not vanish for a small alpha.
    gammas = torch._standard_gamma((alpha + 1).repeat(2), generator=generator)
    logs = gammas.log() + numbers[2:4].log() / alpha
    # For alpha 0, it is minus infinity minus itself.
    share = (logs[0] - logs[1]).sigmoid().nan_to_num(1.0)

    def covered(length: int, place: Tensor) -> Tensor:
        """Which of `length` pixels the box covers."""
        centre = (place * length).floor()
        reach = (0.5 * (1 - share).sqrt() * length).floor()
        pixels = whole_numbers(length, torch.float64, device)
        return (pixels >= centre - reach) & (pixels < centre + reach)

    in_box = covered(height, numbers[4])[:, None] & covered(width, numbers[5])
    return torch.where(is_mixup, share, 1 - (in_box & is_cutmix).double())


def _before(rows: Tensor) -> Tensor:
    """For each row, the one before it in the batch."""
    return rows.roll(1, 0)
