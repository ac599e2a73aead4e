"""Random affine maps with strengths per image: torchvision's pixels, by PIL, and the bounds of the draws."""

import colorsys
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from each import each
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from hba.operations.geometric import Maps, warp
from hba.operations.photometric import shifted_hue
from hba.regularization.on_images import (
    affine,
    affine_coefficients,
    colors_changed,
    cutout,
    input_dropout,
    input_noise,
    jitter,
    with_holes,
)

FILL = (10, 120, 230)
N_MAPS = 60
Levels = NDArray[np.uint8]


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def levels(height: int, width: int, channels: int) -> Levels:
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


def by_torchvision(image: Levels, angle: float, shear: float, x: float, y: float, factor: float) -> Levels:
    given = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image)
    fill = list(FILL[: image.shape[2]])
    shown = TF.affine(given, angle, [int(x), int(y)], factor, [shear, 0.0], InterpolationMode.NEAREST, fill=fill)
    return np.asarray(shown).reshape(image.shape)


@each(("height", "width", "channels"), [(32, 32, 3), (33, 20, 1), (7, 12, 3), (1, 9, 1), (64, 65, 3)])
def test_any_map_shows_torchvision_s_pixels(height: int, width: int, channels: int) -> None:
    """The same image, every pixel of which has another level, through many maps."""
    rng, image = np.random.default_rng(0), levels(height, width, channels)
    largest = np.array([45, 45, width / 2, height / 2, 0.5])
    numbers = torch.from_numpy(rng.uniform(-largest, largest, (N_MAPS, 5)))
    numbers[:, 2:4] = numbers[:, 2:4].round()
    numbers[:, 4] += 1
    images = (torch.from_numpy(image).permute(2, 0, 1).float() / 255).expand(N_MAPS, -1, -1, -1)
    angle, shear, x, y, factor = numbers.T
    maps = Maps.of(affine_coefficients(angle, shear, x, y, factor, height, width))
    result = warp(images, maps, torch.tensor(FILL[:channels]) / 255, "nearest")
    expected = [by_torchvision(image, *row) for row in numbers.tolist()]
    np.testing.assert_array_equal(result.mul(255).round().permute(0, 2, 3, 1).numpy(), np.stack(expected))


def test_numbers_are_uniform_within_each_image_s_own_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    n, width = 20_000, 1000
    weak = torch.arange(n) < n // 2
    largest = {"degrees": (5.0, 40.0), "shear": (30.0, 10.0), "translate": (0.1, 0.5), "scale": (0.5, 0.05)}
    strengths = {name: torch.where(weak, low, high) for name, (low, high) in largest.items()}
    notes: list[tuple[Any, ...]] = []

    def note(*numbers: Any) -> Mapping[str, Tensor]:
        notes.append(numbers)
        return affine_coefficients(*numbers)

    monkeypatch.setattr("hba.regularization.on_images.affine_coefficients", note)
    affine(torch.zeros(n, 1, 1, width), seeded(), **strengths, fill=torch.zeros(1))
    ((angle, shear, x, _, factor, *_),) = notes
    assert torch.equal(x, x.round())
    changes = torch.stack([angle, shear, x / width, factor - 1], dim=1)
    for half, which in ((0, weak), (1, ~weak)):
        for column, strengths_of in enumerate(largest.values()):
            scaled = changes[which][:, column] / strengths_of[half]
            assert -1 - 1e-6 <= float(scaled.min()) < -0.99
            assert 0.99 < float(scaled.max()) <= 1 + 1e-6
            # Of U(-1, 1): mean 0, variance 1/3, fourth moment 1/5.
            np.testing.assert_allclose(scaled.mean(), 0, atol=0.03)
            np.testing.assert_allclose(scaled.square().mean(), 1 / 3, atol=0.015)
            np.testing.assert_allclose(scaled.pow(4).mean(), 1 / 5, atol=0.015)
        assert float((torch.corrcoef(changes[which].T) - torch.eye(4)).abs().max()) < 0.05


MOST = 4


def cut_by_a_loop(image: Tensor, centres: list[list[float]], length: int, holes: int) -> Tensor:
    """As in the code of DeVries and Taylor, but squares of odd lengths have their whole side."""
    result = image.clone()
    height, width = image.shape[1:]
    for across, down in centres[:holes]:
        left, top = math.floor(across * width) - length // 2, math.floor(down * height) - length // 2
        for row in range(max(top, 0), min(top + length, height)):
            for column in range(max(left, 0), min(left + length, width)):
                result[:, row, column] = 0
    return result


@each(("size", "channels"), [((32, 32), 3), ((9, 14), 5), ((1, 5), 1)])
def test_holes_are_those_of_a_slow_loop(size: tuple[int, int], channels: int) -> None:
    batch = 60
    images = torch.randn(batch, channels, *size, generator=seeded(1))
    centres = torch.rand(batch, MOST, 2, generator=seeded(2))
    length = torch.randint(0, 25, (batch,), generator=seeded(3)).float()
    holes = torch.randint(0, MOST + 1, (batch,), generator=seeded(4)).float()
    result = with_holes(images, centres, length, holes)
    for index in range(batch):
        expected = cut_by_a_loop(images[index], centres[index].tolist(), int(length[index]), int(holes[index]))
        assert torch.equal(result[index], expected)


ADJUST = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation)
LEVEL = 1 / 255


def every_color(steps: int = 6) -> Tensor:
    """One image of all colours of a grid: greys, ends, and colours of two equal channels too."""
    levels = torch.linspace(0, 1, steps)
    return torch.cartesian_prod(levels, levels, levels).T.reshape(1, 3, steps, -1)


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


@each("turn", [-0.5, -0.27, -1 / 6, 0.01, 1 / 3, 0.49])
def test_hues_are_colorsys_s_of_each_pixel(turn: float) -> None:
    images = every_color().double()
    result = shifted_hue(images, torch.tensor([turn], dtype=torch.float64))
    for before, after in zip(images[0].flatten(1).T.tolist(), result[0].flatten(1).T.tolist(), strict=True):
        hue, saturation, value = colorsys.rgb_to_hsv(*before)
        np.testing.assert_allclose(after, colorsys.hsv_to_rgb((hue + turn) % 1, saturation, value), atol=1e-12)


N = 200_000
RATES = (0.1, 0.4, 0.75)
VALUES = (-1.5, 0.2, 3.0)


def one_value_each() -> Tensor:
    """Three images, of one value each."""
    return torch.tensor(VALUES)[:, None, None, None].expand(-1, 2, 500, N // 1000)


def test_dropout_keeps_the_mean_and_has_the_variance_of_its_rate() -> None:
    result = input_dropout(one_value_each(), seeded(), rate=torch.tensor(RATES)).double().flatten(1).numpy()
    for image, value, rate in zip(result, VALUES, RATES, strict=True):
        deviation = abs(value) * (rate / (1 - rate)) ** 0.5
        np.testing.assert_allclose(image.mean(), value, atol=5 * deviation / N**0.5)
        np.testing.assert_allclose(image.std(), deviation, rtol=0.02)
        np.testing.assert_allclose((image == 0).mean(), rate, atol=0.006)
        np.testing.assert_allclose(image[image != 0], value / (1 - rate), rtol=1e-6)


def test_noise_keeps_the_mean_and_grows_with_the_number() -> None:
    deviations = (0.05, 0.3, 0.15)
    result = input_noise(one_value_each(), seeded(3), deviation=torch.tensor(deviations)).double().flatten(1).numpy()
    for image, value, deviation in zip(result, VALUES, deviations, strict=True):
        expected = abs(value) * deviation
        np.testing.assert_allclose(image.mean(), value, atol=5 * expected / N**0.5)
        np.testing.assert_allclose(image.std(), expected, rtol=0.01)


@dataclass(frozen=True)
class Case:
    """strengths: by name, ones that are sure to change an image of noise. fixed: what else the function takes."""

    function: Callable[..., Tensor]
    strengths: Mapping[str, float]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    uses_fill: bool = False

    def __call__(self, images: Tensor, generator: torch.Generator | None, **strengths: Tensor) -> Tensor:
        further = {"fill": images.new_full((images.shape[1],), 0.5)} if self.uses_fill else {}
        return self.function(images, generator, **strengths, **self.fixed, **further)

    def at(self, images: Tensor, share: Tensor) -> dict[str, Tensor]:
        """Strengths (B,) of `share` (B,) times those of the case."""
        return {name: strength * share.to(images.device) for name, strength in self.strengths.items()}


CASES = (
    Case(jitter, {"brightness": 0.5, "contrast": 0.5, "saturation": 0.5, "hue": 0.3}),
    Case(affine, {"degrees": 40.0, "shear": 30.0, "translate": 0.3, "scale": 0.4}, uses_fill=True),
    Case(cutout, {"length": 5.0, "holes": 3.0}, {"most_holes": 4}),
    Case(input_dropout, {"rate": 0.4}),
    Case(input_noise, {"deviation": 0.3}),
)


def noise(batch: int = 6, channels: int = 3, dtype: torch.dtype = torch.float32) -> Tensor:
    """Within [0, 1], the ends too."""
    return (torch.rand(batch, channels, 11, 9, generator=seeded(9)) * 1.2 - 0.1).clamp(0, 1).to(dtype)


def differing(first: Tensor, second: Tensor) -> list[bool]:
    """For each image."""
    return (first != second).flatten(1).any(dim=1).tolist()


@each("case", CASES)
@each("channels", [1, 3, 5])
def test_a_strength_of_0_leaves_every_bit_and_others_change_the_image_by_the_generator_alone(
    case: Case, channels: int
) -> None:
    images = noise(channels=channels)
    strengths = case.at(images, torch.tensor([0.0, 1, 0, 1, 0, 1]))
    before, state = images.clone(), torch.get_rng_state()
    result = case(images, seeded(1), **strengths)
    assert result.shape == images.shape
    assert differing(result, images) == [False, True, False, True, False, True]
    assert torch.equal(case(images, seeded(1), **strengths), result)
    assert not torch.equal(case(images, seeded(6), **strengths), result)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(images, before)
    assert result.data_ptr() != images.data_ptr()


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.function.__name__)
def test_on_a_gpu_the_host_never_waits(case: Case) -> None:
    images = noise().cuda()
    strengths = case.at(images, torch.ones(6))
    generator = torch.Generator("cuda").manual_seed(13)
    case(images, generator, **strengths)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        result = case(images, generator, **strengths)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(differing(result, images))
