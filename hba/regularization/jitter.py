"""Random changes of brightness, contrast, saturation and hue, with strengths of its own for each image."""

import torch
from torch import Tensor

from hba.preprocessing.photometric import jittered, order_of_jitters
from hba.regularization.draws import uniform

GREEN_TURN, BLUE_TURN, WHOLE_TURN = 2, 4, 6
"""Hues in sixths of a turn; red is 0."""
SIXTHS_FROM_TOP = (5, 3, 1)
"""Of R, G and B, in the formula from HSV to RGB."""


def jitter(
    images: Tensor,
    generator: torch.Generator | None,
    *,
    brightness: Tensor,
    contrast: Tensor,
    saturation: Tensor,
    hue: Tensor,
) -> Tensor:
    """Images (B, C, H, W) in [0, 1] with colours changed at random, a new tensor in [0, 1].

    Brightness, contrast and saturation (B,), at least 0, are largest changes: factors come from
    U(max(0, 1 - s), 1 + s). hue (B,) in [0, 0.5] is the largest shift, in turns of the colour circle. Each image has
    factors and a shift of its own. Its first three changes come in an order of its own, the hue last: torchvision
    shuffles all four. Strengths of 0 leave the image as it is. Images of other than 3 channels have neither saturation
    nor hue. generator: on the device of the images; None is torch's default. Ref: torchvision's ColorJitter; Delta-STN
    (Bae and Grosse 2020).
    """
    strengths = torch.stack([brightness, contrast, saturation], dim=1).detach()
    factors = uniform((1 - strengths).clamp(min=0), 1 + strengths, generator)
    shift = uniform(-hue.detach(), hue.detach(), generator)
    return colors_changed(images, factors, order_of_jitters(images, generator), shift)


def colors_changed(images: Tensor, factors: Tensor, order: Tensor, shift: Tensor) -> Tensor:
    """Brightness, contrast and saturation by the factors (B, 3) in the order (B, 3) of each image, then the hue.

    shift (B,) in turns, as in `shifted_hue`.
    """
    if images.shape[1] == 3:
        return shifted_hue(jittered(images, factors, order), shift)
    without_saturation = torch.cat([factors[:, :2], torch.ones_like(factors[:, 2:])], dim=1)
    return jittered(images, without_saturation, order)


def shifted_hue(images: Tensor, shift: Tensor) -> Tensor:
    """RGB images (B, 3, H, W) in [0, 1] with hues moved by `shift` (B,) turns, from red by green to blue.

    Saturation and value of HSV stay. Ref: torchvision's adjust_hue, Python's colorsys.
    """
    red, green, blue = images.unbind(dim=1)
    value = images.amax(dim=1)
    chroma = value - images.amin(dim=1)
    # Greys have no hue: any will do, as their chroma is 0.
    divisor = chroma.where(chroma > 0, 1)
    neither_red = torch.where(green == value, GREEN_TURN + (blue - red) / divisor, BLUE_TURN + (red - green) / divisor)
    hue = torch.where(red == value, (green - blue) / divisor, neither_red)
    hue = hue + WHOLE_TURN * shift.to(images.dtype)[:, None, None]
    from_top = torch.stack([_distance(hue + sixths) for sixths in SIXTHS_FROM_TOP], dim=1)
    changed = value[:, None] - chroma[:, None] * from_top
    return torch.where(shift[:, None, None, None] == 0, images, changed)


def _distance(sixths: Tensor) -> Tensor:
    """How far a channel lies below the value, as a share of the chroma."""
    within = sixths.remainder(WHOLE_TURN)
    return torch.minimum(within, BLUE_TURN - within).clamp(0, 1)
