"""Colour and PCA jitter, against torchvision and products by hand."""

from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.preprocessing.baseline import color_jitter, jittered, pca_jitter

ADJUST = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(batch: int = 6) -> Tensor:
    return torch.rand(batch, 3, 9, 7, generator=generator(9))


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_jitters_are_torchvisions_one_after_the_other(order: tuple[int, ...]) -> None:
    images, factors = noise(4), torch.empty(4, 3).uniform_(0.6, 1.4, generator=generator(1))
    result = jittered(images, factors, torch.tensor(order).expand(4, 3))
    for image, given, after in zip(images, factors.tolist(), result, strict=True):
        expected = image
        for kind in order:
            expected = ADJUST[kind](expected, given[kind])
        # The mean grey of contrast is a whole level here, as in PIL.
        torch.testing.assert_close(after, expected, atol=1 / 255, rtol=0)


def test_factors_of_1_change_nothing_and_factors_of_0_take_all_away() -> None:
    images = noise()
    order = torch.tensor([0, 1, 2]).expand(6, 3)
    torch.testing.assert_close(jittered(images, torch.ones(6, 3), order), images)
    black = jittered(images, torch.tensor([0.0, 1.0, 1.0]).expand(6, 3), order)
    assert float(black.abs().max()) == 0
    grey = jittered(images, torch.tensor([1.0, 1.0, 0.0]).expand(6, 3), order)
    luma = (images * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(dim=1)
    for channel in grey.unbind(dim=1):
        torch.testing.assert_close(channel, luma)


def test_each_image_has_its_own_factors_and_order() -> None:
    images, factors = noise(6), torch.empty(6, 3).uniform_(0.6, 1.4, generator=generator(2))
    order = torch.tensor(list(permutations(range(3))))
    together = jittered(images, factors, order)
    for index in range(6):
        alone = jittered(*(part[index : index + 1] for part in (images, factors, order)))
        torch.testing.assert_close(together[index], alone[0])


def test_factors_are_uniform_within_the_strength_and_orders_alike_often(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[tuple[Tensor, Tensor]] = []

    def note(images: Tensor, factors: Tensor, order: Tensor) -> Tensor:
        drawn.append((factors, order))
        return images

    monkeypatch.setattr("hba.preprocessing.baseline.jittered", note)
    n = 6000
    color_jitter(torch.zeros(n, 3, 1, 1), 0.4, generator())
    ((factors, order),) = drawn
    assert 0.6 <= float(factors.min()) < 0.61
    assert 1.39 < float(factors.max()) <= 1.4
    np.testing.assert_allclose(factors.mean(dim=0), 1, atol=0.02)
    np.testing.assert_allclose(factors.std(dim=0), 0.8 / 12**0.5, rtol=0.03)
    times = Counter(map(tuple, order.tolist()))
    assert set(times) == set(permutations(range(3)))
    # Five standard deviations of a count.
    assert max(abs(count - n / 6) for count in times.values()) < 5 * (n / 6) ** 0.5
    assert abs(float(torch.corrcoef(factors.T)[0, 1])) < 0.06


EIGENVALUES = np.array([0.2175, 0.0188, 0.0045])
EIGENVECTORS = np.array([[-0.5675, 0.7192, 0.4009], [-0.5808, -0.0045, -0.8140], [-0.5836, -0.6948, 0.4203]])


def test_pca_jitter_adds_the_eigenvectors_times_eigenvalues_times_alpha() -> None:
    images = noise(5)
    alpha = (torch.randn(5, 3, generator=generator(7)) * 0.1).double().numpy()
    offsets = (pca_jitter(images, 0.1, generator(7)) - images).double()
    for offset, drawn in zip(offsets, alpha, strict=True):
        expected = EIGENVECTORS @ (drawn * EIGENVALUES)
        np.testing.assert_allclose(offset.numpy(), np.broadcast_to(expected[:, None, None], (3, 9, 7)), atol=1e-6)


def test_pca_jitter_has_the_covariance_of_its_components() -> None:
    offsets = pca_jitter(torch.zeros(20_000, 3, 1, 1), 0.1, generator())[:, :, 0, 0].double().numpy()
    expected = EIGENVECTORS @ np.diag((0.1 * EIGENVALUES) ** 2) @ EIGENVECTORS.T
    np.testing.assert_allclose(np.cov(offsets.T), expected, rtol=0.05, atol=1e-7)
    np.testing.assert_allclose(offsets.mean(axis=0), 0, atol=5e-4)


@pytest.mark.parametrize("jitter", [color_jitter, pca_jitter])
def test_the_generator_alone_decides_and_images_stay(jitter: object) -> None:
    assert callable(jitter)
    images = noise()
    before, state = images.clone(), torch.get_rng_state()
    first = jitter(images, 0.4, generator(3))
    assert torch.equal(jitter(images, 0.4, generator(3)), first)
    assert not torch.equal(jitter(images, 0.4, generator(4)), first)
    assert torch.equal(images, before)
    assert torch.equal(torch.get_rng_state(), state)
