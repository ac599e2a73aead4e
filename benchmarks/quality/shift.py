"""A distribution shift that no policy of the search space makes: what people meet whose test images are other than
those that they train on.
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from hba.data.batches import as_floats

Range = tuple[float, float]

_BINOMIAL = (0.25, 0.5, 0.25)


@dataclass(frozen=True)
class Shift:
    """Every image goes through all of these in this order, each time with its own draw, uniform between two ends.

    rotation: degrees, in one bilinear step with the zoom; what is uncovered repeats the border. zoom: factor of the
    side that is shown, so below 1 the image grows. gamma: exponent of the levels in [0, 1]; its logarithm is uniform.
    blur: share of an image blurred by a 3x3 binomial filter, in a blend with the sharp one. noise: standard deviation
    of Gaussian noise on levels in [0, 1], which are cut to [0, 1] after it.
    """

    rotation: Range = (-25.0, 25.0)
    zoom: Range = (0.8, 1.25)
    gamma: Range = (0.5, 2.5)
    blur: Range = (0.0, 1.0)
    noise: Range = (0.0, 0.12)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        """New images uint8 (N, C, H, W) of such images, on the generator's device. Images of equal channels, which are
        grey, stay grey.
        """
        n, channels = images.shape[:2]
        is_grey = bool((images == images[:, :1]).all())

        def uniform(ends: Range) -> Tensor:
            return ends[0] + (ends[1] - ends[0]) * torch.rand(n, 1, 1, 1, generator=generator, device=images.device)

        levels = as_floats(images[:, :1] if is_grey else images)
        levels = _turned(levels, torch.deg2rad(uniform(self.rotation)).flatten(), uniform(self.zoom).flatten())
        levels = levels ** uniform((math.log(self.gamma[0]), math.log(self.gamma[1]))).exp()
        levels = torch.lerp(levels, _blurred(levels), uniform(self.blur))
        noise = torch.randn(levels.shape, generator=generator, device=images.device)
        shifted = (levels + uniform(self.noise) * noise).clamp(0, 1).mul(255).round().to(torch.uint8)
        return shifted.expand(n, channels, -1, -1).contiguous()


def _turned(images: Tensor, angle: Tensor, zoom: Tensor) -> Tensor:
    """images (N, C, H, W); angle in radians and zoom (N,)."""
    cosine, sine, nothing = zoom * angle.cos(), zoom * angle.sin(), torch.zeros_like(angle)
    rows = torch.stack([cosine, -sine, nothing, sine, cosine, nothing], dim=1).reshape(-1, 2, 3)
    grid = F.affine_grid(rows, list(images.shape), align_corners=False)
    # Rounding in the interpolation must not leave [0, 1], where a power is not defined.
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False).clamp(0, 1)


def _blurred(images: Tensor) -> Tensor:
    """images (N, C, H, W); what lies outside repeats the border."""
    channels = images.shape[1]
    line = torch.tensor(_BINOMIAL, device=images.device)
    kernel = torch.outer(line, line).expand(channels, 1, 3, 3)
    return F.conv2d(F.pad(images, (1, 1, 1, 1), mode="replicate"), kernel, groups=channels)
