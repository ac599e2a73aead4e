"""Random affine maps with strengths per image: torchvision's pixels, by PIL, and the bounds of the draws."""

from collections.abc import Mapping

import numpy as np
import pytest
import torch
from each import each
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as TF

from hba.operations.resample import Maps, warp
from hba.regularization.on_images import affine, affine_coefficients

FILL = (10, 120, 230)
N_MAPS = 60
STILL = {"angle": 0.0, "shear": 0.0, "x": 0.0, "y": 0.0, "factor": 1.0}

Levels = NDArray[np.uint8]


def levels(height: int, width: int, channels: int) -> Levels:
    """Every pixel another level, so that one taken from the wrong place shows."""
    return np.random.default_rng(0).integers(0, 256, (height, width, channels), dtype=np.uint8)


def by_hba(image: Levels, numbers: Mapping[str, Tensor]) -> Levels:
    """The same image through the map of each row of numbers."""
    height, width, channels = image.shape
    batch = len(numbers["angle"])
    images = (torch.from_numpy(image).permute(2, 0, 1).float() / 255).expand(batch, -1, -1, -1)
    maps = Maps.of(affine_coefficients(**numbers, height=height, width=width))
    result = warp(images, maps, torch.tensor(FILL[:channels]) / 255, "nearest")
    shown: Levels = result.mul(255).round().permute(0, 2, 3, 1).numpy().astype(np.uint8)
    return shown


def by_torchvision(image: Levels, angle: float, shear: float, x: float, y: float, factor: float) -> Levels:
    given = Image.fromarray(image.squeeze(2) if image.shape[2] == 1 else image)
    fill = list(FILL[: image.shape[2]])
    shown = TF.affine(given, angle, [int(x), int(y)], factor, [shear, 0.0], InterpolationMode.NEAREST, fill=fill)
    return np.asarray(shown).reshape(image.shape)


def assert_torchvision_s(image: Levels, numbers: Mapping[str, Tensor]) -> None:
    expected = [
        by_torchvision(image, **dict(zip(numbers, row, strict=True)))
        for row in torch.stack([*numbers.values()], 1).tolist()
    ]
    np.testing.assert_array_equal(by_hba(image, numbers), np.stack(expected))


def some_numbers(height: int, width: int, seed: int) -> dict[str, Tensor]:
    rng = np.random.default_rng(seed)
    return {
        "angle": torch.from_numpy(rng.uniform(-45, 45, N_MAPS)),
        "shear": torch.from_numpy(rng.uniform(-45, 45, N_MAPS)),
        "x": torch.from_numpy(rng.uniform(-width / 2, width / 2, N_MAPS)).round(),
        "y": torch.from_numpy(rng.uniform(-height / 2, height / 2, N_MAPS)).round(),
        "factor": torch.from_numpy(rng.uniform(0.5, 1.5, N_MAPS)),
    }


@each("size", [(32, 32), (33, 20), (7, 12), (1, 9), (64, 65)])
@each("channels", [1, 3])
def test_any_map_shows_torchvision_s_pixels(size: tuple[int, int], channels: int) -> None:
    assert_torchvision_s(levels(*size, channels), some_numbers(*size, seed=sum(size)))


@each(
    ("name", "values"),
    [
        ("angle", (-45.0, -10.0, 0.0, 3.0, 45.0)),
        ("shear", (-45.0, -10.0, 0.0, 3.0, 45.0)),
        ("x", (-16.0, -1.0, 0.0, 5.0, 16.0)),
        ("y", (-16.0, -1.0, 0.0, 5.0, 16.0)),
        # At rounder factors PIL's sums of fractions decide between two pixels.
        ("factor", (0.51, 0.77, 1.0, 1.23, 1.47)),
    ],
)
def test_each_number_alone_shows_torchvision_s_pixels(name: str, values: tuple[float, ...]) -> None:
    given = {other: torch.full((5,), value, dtype=torch.float64) for other, value in STILL.items()}
    given[name] = torch.tensor(values, dtype=torch.float64)
    image = levels(33, 32, 3)
    assert_torchvision_s(image, given)
    shown = by_hba(image, given)
    assert [bool((one != image).any()) for one in shown] == [value != STILL[name] for value in values]


def drawn(monkeypatch: pytest.MonkeyPatch, height: int, width: int, **strengths: Tensor) -> dict[str, Tensor]:
    """The numbers of each map of one call."""
    notes: list[dict[str, Tensor]] = []

    def note(
        angle: Tensor, shear: Tensor, x: Tensor, y: Tensor, factor: Tensor, height: int, width: int
    ) -> Mapping[str, Tensor]:
        notes.append({"angle": angle, "shear": shear, "x": x, "y": y, "factor": factor})
        return affine_coefficients(angle, shear, x, y, factor, height, width)

    monkeypatch.setattr("hba.regularization.on_images.affine_coefficients", note)
    images = torch.zeros(len(strengths["scale"]), 1, height, width)
    affine(images, torch.Generator().manual_seed(0), **strengths, fill=torch.zeros(1))
    (only,) = notes
    return only


def test_numbers_are_uniform_within_each_image_s_own_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    n, height, width = 20_000, 1, 1000
    weak = torch.arange(n) < n // 2
    largest = {"degrees": (5.0, 40.0), "shear": (30.0, 10.0), "translate": (0.1, 0.5), "scale": (0.5, 0.05)}
    found = drawn(
        monkeypatch, height, width, **{name: torch.where(weak, low, high) for name, (low, high) in largest.items()}
    )
    assert torch.equal(found["x"], found["x"].round())
    changes = torch.stack([found["angle"], found["shear"], found["x"] / width, found["factor"] - 1], dim=1)
    for half, which in ((0, weak), (1, ~weak)):
        of_half = changes[which]
        for column, strengths in enumerate(largest.values()):
            scaled = of_half[:, column] / strengths[half]
            assert -1 - 1e-6 <= float(scaled.min()) < -0.99
            assert 0.99 < float(scaled.max()) <= 1 + 1e-6
            # Of U(-1, 1): mean 0, variance 1/3, fourth moment 1/5.
            np.testing.assert_allclose(scaled.mean(), 0, atol=0.03)
            np.testing.assert_allclose(scaled.square().mean(), 1 / 3, atol=0.015)
            np.testing.assert_allclose(scaled.pow(4).mean(), 1 / 5, atol=0.015)
        assert float((torch.corrcoef(of_half.T) - torch.eye(4)).abs().max()) < 0.05


def test_translations_are_shares_of_each_side_in_whole_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    n = 8000
    still = torch.zeros(n)
    found = drawn(monkeypatch, 10, 30, degrees=still, shear=still, translate=torch.full((n,), 0.25), scale=still)
    # As torchvision: U(-7.5, 7.5) and U(-2.5, 2.5), rounded.
    assert sorted(set(found["x"].tolist())) == list(range(-7, 8))
    assert sorted(set(found["y"].tolist())) == [-2, -1, 0, 1, 2]
    np.testing.assert_allclose([(found["y"] == y).double().mean() for y in range(-2, 3)], 0.2, atol=0.03)
    assert abs(float(torch.corrcoef(torch.stack([found["x"], found["y"]]))[0, 1])) < 0.06
