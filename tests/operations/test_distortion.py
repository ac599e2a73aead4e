"""Perspective, elastic distortion and erasing against torchvision's functions, and what
each of them draws.
"""

import math

import torch
from random_inputs import random_images, seeded
from scipy import stats
from scipy.interpolate import BSpline
from torch import Tensor
from torchvision.transforms.v2 import functional as TF

from hba.operations.distortion import (
    CELLS,
    elastic,
    elastic_displacement,
    perspective,
    perspective_points,
)
from hba.operations.erasing import erase

FILL = torch.tensor([0.8, 0.1, 0.3])
SIZES = ((24, 24), (33, 20), (64, 48), (2, 5))
N_DRAWS = 10_000


def filled(image: Tensor, inside: Tensor) -> Tensor:
    """torchvision's own fill multiplies pixels at the image's border by their share of
    the image twice.
    """
    return image + (1 - inside) * FILL[:, None, None]


def test_perspective_is_torchvision_s_with_the_same_corners() -> None:
    for height, width in SIZES:
        images = random_images((8, 3, height, width), seed=1)
        uniforms = torch.rand(8, 8, generator=seeded(2))
        largest = torch.linspace(0, 0.5, 8)
        result = perspective(images, largest, FILL, uniforms)
        start, end = (
            points.tolist()
            for points in perspective_points(largest, uniforms, height, width)
        )
        for i, image in enumerate(images):
            expected, inside = (
                TF.perspective(before, start[i], end[i])
                for before in (image, torch.ones_like(image))
            )
            torch.testing.assert_close(
                result[i], filled(expected, inside), atol=2e-4, rtol=0
            )


def test_corners_are_drawn_as_by_torchvision() -> None:
    """RandomPerspective: whole numbers from 0 to int(scale * (side // 2)), from each
    corner inwards.
    """
    uniforms = torch.rand(N_DRAWS, 8, generator=seeded(3))
    largest = torch.full((N_DRAWS,), 0.3)
    start, end = perspective_points(largest, uniforms, 41, 32)
    assert start[0].tolist() == [[0, 0], [31, 0], [31, 40], [0, 40]]
    inwards = (end - start) * torch.tensor([[1, 1], [-1, 1], [-1, -1], [1, -1]])
    for axis, most in ((0, 4), (1, 6)):
        for corner in range(4):
            counts = inwards[:, corner, axis].bincount()
            assert len(counts) == most + 1
            assert stats.chisquare(counts.numpy()).pvalue > 1e-4


def test_elastic_is_torchvision_s_with_the_same_displacement() -> None:
    for height, width in (*SIZES, (1, 4)):
        images = random_images((5, 3, height, width), seed=4)
        uniforms = torch.rand(5, 1, generator=seeded(5))
        largest = torch.linspace(0, 0.2, 5)
        displacement = elastic_displacement(largest, uniforms, height, width)
        assert displacement.shape == (5, height, width, 2)
        result = elastic(images, largest, FILL, uniforms)
        for i, image in enumerate(images):
            expected, inside = (
                TF.elastic(before, displacement[i : i + 1])
                for before in (image, torch.ones_like(image))
            )
            torch.testing.assert_close(
                result[i], filled(expected, inside), atol=1e-5, rtol=0
            )


def test_the_displacement_is_a_spline_within_its_bound() -> None:
    uniforms = torch.rand(2000, 1, generator=seeded(6))
    field = elastic_displacement(torch.full((2000,), 0.1), uniforms, 16, 16) / 2
    assert 0.06 < field.abs().max() < 0.1
    assert abs(float(field.mean())) < 1e-3
    # Two neighbouring pixels differ by at most 2 * 0.1 of the side in a cell, which has
    # 4 of them.
    assert field.diff(dim=2).abs().max() < 0.2 / (16 / CELLS)
    # A cubic spline is found again from as many pixels as it has knots.
    place = (torch.arange(16) + 0.5).numpy() / (16 / CELLS)
    basis = torch.from_numpy(
        BSpline.design_matrix(place, range(-3, CELLS + 4), 3).toarray()
    )
    row = field[0, 3, :, 0].double()
    knots = torch.linalg.lstsq(basis, row).solution
    torch.testing.assert_close(basis @ knots, row, atol=1e-7, rtol=0)


def test_erase_covers_the_rectangle_that_torchvision_s_would() -> None:
    """For the same share, aspect and place; cut to the image if it does not fit."""
    images = random_images((300, 3, 20, 31), seed=7)
    uniforms = torch.rand(300, 4, generator=seeded(8))
    result = erase(images, torch.full((300,), 0.4), FILL, uniforms)
    n_cut = 0
    for image, result_image, (share, aspect, x, y) in zip(
        images, result, uniforms.double().tolist(), strict=True
    ):
        area = (0.02 + 0.38 * share) * 20 * 31
        ratio = math.exp(math.log(0.3) + aspect * math.log(3.3 / 0.3))
        height = round(math.sqrt(area * ratio))
        width = round(math.sqrt(area / ratio))
        n_cut += height > 20 or width > 31
        height = min(height, 20)
        width = min(width, 31)
        top = int(y * (20 - height + 1))
        left = int(x * (31 - width + 1))
        assert torch.equal(
            result_image, TF.erase(image, top, left, height, width, FILL[:, None, None])
        )
    assert 0 < n_cut < 60


def test_the_erased_share_and_place_are_uniform() -> None:
    images = torch.zeros(N_DRAWS, 1, 32, 32)
    uniforms = torch.rand(N_DRAWS, 4, generator=seeded(9))
    covered = erase(images, torch.full((N_DRAWS,), 0.2), torch.ones(1), uniforms)
    shares = covered.mean(dim=(1, 2, 3))
    assert abs(float(shares.mean()) - 0.11) < 0.003
    assert 0.01 < shares.min() < 0.03
    assert 0.19 < shares.max() < 0.22
    by_place = covered.mean(dim=(0, 1))
    torch.testing.assert_close(by_place, by_place.flip(0, 1), atol=0.02, rtol=0)
    heights, widths = (covered.amax(dim=(1, side)).sum(dim=1) for side in (3, 2))
    assert abs(float((heights / widths).log().mean())) < 0.03
    assert ((heights / widths).log().abs() < math.log(3.3) + 0.5).all()
    small = erase(images, torch.full((N_DRAWS,), 0.001), torch.ones(1), uniforms)
    assert 0.015 < small.mean() < 0.025
