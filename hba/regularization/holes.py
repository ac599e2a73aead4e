"""Cutout with a length and a number of holes of its own for each image."""

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.operations.cutout import covered
from hba.utils.devices import whole_numbers


def cutout(
    images: Tensor, generator: torch.Generator | None, *, length: Tensor, holes: Tensor, most_holes: int
) -> Tensor:
    """Standardised images (B, C, H, W) with squares set to 0, the mean colour; a new tensor.

    length (B,) is the side of the squares in pixels, holes (B,) their number; both at least 0, and rounded to the
    nearest whole number, halves to the even one. No image gets more than `most_holes`. Centres are uniform over the
    pixels, so squares may overlap, and are cut off at the border. generator: on the device of the images; None is
    torch's default. Ref: DeVries and Taylor 2017; STN (MacKay et al. 2019), Appendix E.
    """
    centres = draw_then_shard(
        len(images), lambda n: torch.rand(n, most_holes, 2, generator=generator, device=images.device)
    )
    return with_holes(images, centres, length.detach().round(), holes.detach().round())


def with_holes(images: Tensor, centres: Tensor, length: Tensor, holes: Tensor) -> Tensor:
    """The first `holes` (B,) of the squares about `centres` (B, K, 2), set to 0.

    length (B,): whole pixels. centres: in [0, 1), as fractions of width and height.
    """
    batch, most_holes, _ = centres.shape
    counted = whole_numbers(most_holes, holes.dtype, holes.device) < holes[:, None]
    # A hole that does not count has no side.
    side = (length[:, None] * counted).double()
    x, y = centres.double().unbind(dim=2)
    across, down = covered(images.shape[3], x, side), covered(images.shape[2], y, side)
    # How many squares lie over each pixel: a product of outer products, summed over the holes.
    times = (down.mT.float() @ across.float()).view(batch, 1, *images.shape[2:])
    return images.masked_fill(times > 0, 0)
