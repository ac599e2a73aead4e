"""Colour and PCA jitter, against torchvision and products by hand."""

from itertools import permutations

import numpy as np
import torch
from each import each
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.preprocessing.baseline import jittered, pca_jitter

ADJUST = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(batch: int = 6) -> Tensor:
    return torch.rand(batch, 3, 9, 7, generator=generator(9))


@each("order", list(permutations(range(3))))
def test_jitters_are_torchvisions_one_after_the_other(order: tuple[int, ...]) -> None:
    images, factors = noise(4), torch.empty(4, 3).uniform_(0.6, 1.4, generator=generator(1))
    result = jittered(images, factors, torch.tensor(order).expand(4, 3))
    for image, given, after in zip(images, factors.tolist(), result, strict=True):
        expected = image
        for kind in order:
            expected = ADJUST[kind](expected, given[kind])
        # The mean grey of contrast is a whole level here, as in PIL.
        torch.testing.assert_close(after, expected, atol=1 / 255, rtol=0)


def test_each_image_has_its_own_factors_and_order() -> None:
    images, factors = noise(6), torch.empty(6, 3).uniform_(0.6, 1.4, generator=generator(2))
    order = torch.tensor(list(permutations(range(3))))
    together = jittered(images, factors, order)
    for index in range(6):
        alone = jittered(*(part[index : index + 1] for part in (images, factors, order)))
        torch.testing.assert_close(together[index], alone[0])


EIGENVALUES = np.array([0.2175, 0.0188, 0.0045])
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def test_pca_jitter_adds_the_eigenvectors_times_eigenvalues_times_alpha() -> None:
    images = noise(5)
    alpha = (torch.randn(5, 3, generator=generator(7)) * 0.1).double().numpy()
    offsets = (pca_jitter(images, 0.1, generator(7)) - images).double()
    for offset, drawn in zip(offsets, alpha, strict=True):
        expected = EIGENVECTORS @ (drawn * EIGENVALUES)
        np.testing.assert_allclose(offset.numpy(), np.broadcast_to(expected[:, None, None], (3, 9, 7)), atol=1e-6)
