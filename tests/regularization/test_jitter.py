"""Colour jitter with strengths per image, against torchvision, Python's colorsys and the bounds of its draws."""

import colorsys
from collections import Counter
from itertools import permutations

import numpy as np
import pytest
import torch
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


@pytest.mark.parametrize("order", list(permutations(range(3))))
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


@pytest.mark.parametrize("turn", [-0.5, -0.27, -1 / 6, 0.01, 1 / 3, 0.49])
def test_hues_are_colorsys_s_of_each_pixel(turn: float) -> None:
    images = every_color().double()
    result = shifted_hue(images, torch.tensor([turn], dtype=torch.float64))
    for before, after in zip(images[0].flatten(1).T.tolist(), result[0].flatten(1).T.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), atol=1e-12)


def test_a_third_of_a_turn_makes_green_of_red_and_greys_stay() -> None:
    red, grey = torch.tensor([1.0, 0, 0]), torch.tensor([0.3, 0.3, 0.3])
    images = torch.stack([red, grey])[:, :, None, None]
    result = shifted_hue(images, torch.full((2,), 1 / 3))[:, :, 0, 0]
    torch.testing.assert_close(result[0], torch.tensor([0.0, 1, 0]), atol=1e-6, rtol=0)
    assert torch.equal(result[1], grey)


def test_hues_of_any_shift_stay_within_the_darkest_and_lightest_channel() -> None:
    images = torch.rand(500, 3, 8, 8, generator=seeded(2))
    result = shifted_hue(images, torch.linspace(-0.5, 0.5, 500))
    assert float(result.min()) >= 0
    torch.testing.assert_close(result.amax(dim=1), images.amax(dim=1))
    torch.testing.assert_close(result.amin(dim=1), images.amin(dim=1), atol=1e-6, rtol=0)


@pytest.mark.parametrize("channels", [1, 2, 4, 5])
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


def test_grey_images_are_torchvision_s() -> None:
    images = noise(3, 1)
    factors = torch.tensor([[0.5, 1.4, 0.2], [1.3, 0.2, 1.9], [1.0, 1.0, 0.0]])
    result = colors_changed(images, factors, first_order(3), torch.full((3,), 0.3))
    for image, given, after in zip(images, factors.tolist(), result, strict=True):
        expected = image
        for adjust, factor in zip(ADJUST, given, strict=True):
            expected = adjust(expected, factor)
        torch.testing.assert_close(after, TF.adjust_hue(expected, 0.3), atol=LEVEL, rtol=0)


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


def test_factors_are_never_below_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torchvision's: a strength of 1.5 is U(0, 2.5)."""
    n = 5000
    factors, _, _ = drawn(
        monkeypatch, **{name: torch.full((n,), 1.5) for name in ("brightness", "contrast", "saturation", "hue")}
    )
    assert 0 <= float(factors.min()) < 0.01
    assert 2.49 < float(factors.max()) <= 2.5
    np.testing.assert_allclose(factors.mean(dim=0), 1.25, atol=0.05)


def test_orders_are_alike_often(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 6000
    strength = torch.full((n,), 0.3)
    _, order, _ = drawn(monkeypatch, brightness=strength, contrast=strength, saturation=strength, hue=strength)
    times = Counter(map(tuple, order.tolist()))
    assert set(times) == set(permutations(range(3)))
    # Five standard deviations of a count.
    assert max(abs(count - n / 6) for count in times.values()) < 5 * (n / 6) ** 0.5
