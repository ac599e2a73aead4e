"""Colour jitter with strengths per image, against torchvision, Python's colorsys and the bounds of its draws."""

import colorsys
from itertools import permutations

import numpy as np
import pytest
import torch
from each import each
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.regularization.on_images import colors_changed, jitter, shifted_hue

ADJUST = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation)
LEVEL = 1 / 255


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(batch: int = 6, channels: int = 3) -> Tensor:
    return torch.rand(batch, channels, 9, 7, generator=seeded(9))


def every_color(steps: int = 6) -> Tensor:
    """One image of all colours of a grid: greys, ends, and colours of two equal channels too."""
    levels = torch.linspace(0, 1, steps)
    return torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, steps, -1)


def first_order(batch: int) -> Tensor:
    return torch.arange(3).expand(batch, 3)


@each("order", list(permutations(range(3))))
def test_changes_are_torchvision_s_of_each_image_one_after_the_other(order: tuple[int, ...]) -> None:
    images = noise(5)
    factors = torch.empty(5, 3).uniform_(0.3, 1.7, generator=seeded(1))
    shift = torch.tensor([-0.5, -0.13, 0.04, 0.21, 0.5])
    result = colors_changed(images, factors, torch.tensor(order).expand(5, 3), shift)
    for image, given, turn, after in zip(images, factors.tolist(), shift.tolist(), result, strict=True):
        expected = image
        for kind in order:
            expected = ADJUST[kind](expected, given[kind])
        # The mean grey of contrast is a whole level here, as in PIL; what that moves a hue by is bounded alike.
        torch.testing.assert_close(after, TF.adjust_hue(expected, turn), atol=4 * LEVEL, rtol=0)


def test_hues_are_torchvision_s_of_each_image() -> None:
    images, shift = every_color().expand(9, -1, -1, -1), torch.linspace(-0.5, 0.5, 9)
    result = shifted_hue(images, shift)
    for image, turn, after in zip(images, shift.tolist(), result, strict=True):
        torch.testing.assert_close(after, TF.adjust_hue(image, turn), atol=2e-6, rtol=0)


@each("turn", [-0.5, -0.27, -1 / 6, 0.01, 1 / 3, 0.49])
def test_hues_are_colorsys_s_of_each_pixel(turn: float) -> None:
    images = every_color().double()
    result = shifted_hue(images, torch.tensor([turn], dtype=torch.float64))
    for before, after in zip(images[0].flatten(1).T.tolist(), result[0].flatten(1).T.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), atol=1e-12)


@each("channels", [1, 2, 4, 5])
def test_without_three_channels_brightness_and_contrast_alone_act(channels: int) -> None:
    images = noise(4, channels)
    factors = torch.tensor([0.5, 1.4, 0.2]).expand(4, 3)
    result = colors_changed(images, factors, first_order(4), torch.full((4,), 0.3))
    darker = images * 0.5
    mean = darker.mul(255).round().mean(dim=(1, 2, 3), keepdim=True).div(255)
    expected = (1.4 * darker - 0.4 * mean).clamp(0, 1)
    torch.testing.assert_close(result, expected, atol=0.4 * LEVEL, rtol=0)
    colors_only = torch.tensor([1.0, 1.0, 0.2]).expand(4, 3)
    assert torch.equal(colors_changed(images, colors_only, first_order(4), torch.full((4,), 0.3)), images)


Draw = tuple[Tensor, Tensor, Tensor]


def drawn(monkeypatch: pytest.MonkeyPatch, **strengths: Tensor) -> Draw:
    """Factors, order and shift of one call."""
    notes: list[Draw] = []

    def note(images: Tensor, *draw: Tensor) -> Tensor:
        factors, order, shift = draw
        notes.append((factors, order, shift))
        return images

    monkeypatch.setattr("hba.regularization.on_images.colors_changed", note)
    jitter(torch.zeros(len(strengths["hue"]), 3, 1, 1), seeded(), **strengths)
    (only,) = notes
    return only


def test_factors_and_shifts_are_uniform_within_each_image_s_own_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 20_000
    weak = torch.arange(n) < n // 2
    largest = {"brightness": (0.2, 0.9), "contrast": (0.5, 0.1), "saturation": (0.4, 0.7), "hue": (0.05, 0.4)}
    factors, _, shift = drawn(
        monkeypatch, **{name: torch.where(weak, low, high) for name, (low, high) in largest.items()}
    )
    changes = torch.column_stack([factors - 1, shift])
    for half, which in ((0, weak), (1, ~weak)):
        of_half = changes[which]
        for column, strengths in enumerate(largest.values()):
            scaled = of_half[:, column] / strengths[half]
            assert -1 - 1e-5 <= float(scaled.min()) < -0.99
            assert 0.99 < float(scaled.max()) <= 1 + 1e-5
            # Of U(-1, 1): mean 0, variance 1/3, fourth moment 1/5.
            np.testing.assert_allclose(scaled.mean(), 0, atol=0.03)
            np.testing.assert_allclose(scaled.square().mean(), 1 / 3, atol=0.015)
            np.testing.assert_allclose(scaled.pow(4).mean(), 1 / 5, atol=0.015)
        assert float((torch.corrcoef(of_half.T) - torch.eye(4)).abs().max()) < 0.05
