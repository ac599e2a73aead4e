"""Dropout of and noise on what the network is given, with a strength of its own for each image."""

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard


def input_dropout(images: Tensor, generator: torch.Generator | None, *, rate: Tensor) -> Tensor:
    """Standardised images (B, C, H, W) with each number set to 0 by the probability `rate` (B,); a new tensor.

    rate: in [0, 1]; 0 leaves the image as it is, 1 leaves nothing. What is left is divided by 1 - rate, so the mean
    stays. generator: on the device of the images; None is torch's default. Ref: Srivastava et al. 2014; STN (MacKay et
    al. 2019), section 4.3.
    """
    rate = rate.detach()[:, None, None, None]
    # float32 for all: draws in half precision would be too coarse for small rates.
    pixels, device = images.shape[1:], images.device
    dropped = draw_then_shard(len(images), lambda n: torch.rand(n, *pixels, generator=generator, device=device)) < rate
    kept_share = (1 - rate).clamp(min=torch.finfo(rate.dtype).eps)
    return images.masked_fill(dropped, 0) / kept_share.to(images.dtype)


def input_noise(images: Tensor, generator: torch.Generator | None, *, deviation: Tensor) -> Tensor:
    """Standardised images (B, C, H, W), each number times its own draw of N(1, deviation^2); a new tensor.

    deviation (B,), at least 0; 0 leaves the image as it is. generator: on the device of the images; None is torch's
    default. Ref: STN (MacKay et al. 2019), section 4.3, tunes "input scaling noise" and does not state its form;
    multiplying each number is this library's choice.
    """
    pixels, dtype, device = images.shape[1:], images.dtype, images.device
    noise = draw_then_shard(
        len(images), lambda n: torch.randn(n, *pixels, generator=generator, dtype=dtype, device=device)
    )
    return noise.mul_(deviation.detach().to(images.dtype)[:, None, None, None]).add_(1).mul_(images)
