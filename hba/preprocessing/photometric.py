"""Colour jitter and PCA jitter of ImageNet's baseline augmentation, for images (B, 3, H, W) in [0, 1]."""

import torch
from torch import Tensor

from hba.distributed.collectives import draw_then_shard
from hba.operations import COMMON_CHANNELS
from hba.operations.enhance import blend, gray, mean_gray
from hba.utils.devices import device_constant

EIGENVALUES = (0.2175, 0.0188, 0.0045)
EIGENVECTORS = ((-0.5675, 0.7192, 0.4009), (-0.5808, -0.0045, -0.8140), (-0.5836, -0.6948, 0.4203))
"""Of the covariance of ImageNet's colours in [0, 1]; a row for each channel, a column for each component."""

N_JITTERS = 3
"""Brightness, contrast and saturation, in this order in `factors`."""


def color_jitter(images: Tensor, strength: float, generator: torch.Generator) -> Tensor:
    """Change brightness, contrast and saturation of each image by factors from U(1 - strength, 1 + strength), in an
    order of its own. Ref: torchvision's ColorJitter.
    """
    low, high = 1 - strength, 1 + strength

    def numbers(n: int) -> Tensor:
        return torch.empty(n, N_JITTERS, device=images.device)

    factors = draw_then_shard(len(images), lambda n: numbers(n).uniform_(low, high, generator=generator))
    return jittered(images, factors, order_of_jitters(images, generator))


def order_of_jitters(images: Tensor, generator: torch.Generator | None) -> Tensor:
    """A random order (B, 3) of 0, 1 and 2 for each image."""
    keys = draw_then_shard(len(images), lambda n: torch.rand(n, N_JITTERS, generator=generator, device=images.device))
    return keys.argsort(dim=1)


def jittered(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
    """Enhance by the factors (B, 3), in the order (B, 3) that names 0, 1 or 2 for each step.

    Images of other than 1 or 3 channels have no saturation to change.
    """
    for step in order.T:
        kind = step[:, None, None, None]
        less_saturated = gray(images) if images.shape[1] in COMMON_CHANNELS else images
        poorer = torch.where(kind == 1, mean_gray(images), less_saturated).where(kind != 0, 0)
        images = blend(poorer, images, factors.gather(1, step[:, None])[:, 0])
    return images


def pca_jitter(images: Tensor, std: float, generator: torch.Generator) -> Tensor:
    """Add noise along the principal components of colour, the same to all pixels of an image; not clamped.

    Ref: Krizhevsky, Sutskever and Hinton 2012, 4.1, with alpha of standard deviation `std` per component.
    """
    n_components, device = len(EIGENVALUES), images.device
    alpha = (
        draw_then_shard(len(images), lambda n: torch.randn(n, n_components, generator=generator, device=device)) * std
    )
    return images + (alpha @ _components(images.device))[:, :, None, None]


@device_constant
def _components(device: torch.device) -> Tensor:
    """(component, channel): each eigenvector times its eigenvalue."""
    return torch.tensor(EIGENVECTORS, device=device).T * torch.tensor(EIGENVALUES, device=device)[:, None]
