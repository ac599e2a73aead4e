"""Cutout with a length and a number of holes per image, against a slow loop and counts of what is covered."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hba.regularization.on_images import cutout, with_holes

MOST = 4


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


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


@pytest.mark.parametrize("size", [(32, 32), (9, 14), (1, 5)])
@pytest.mark.parametrize("channels", [1, 3, 5])
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


def test_centres_at_the_corners_leave_what_the_border_cuts_off() -> None:
    corners = torch.tensor([[[0.0, 0.0]], [[0.999, 0.0]], [[0.0, 0.999]], [[0.999, 0.999]]])
    result = with_holes(torch.ones(4, 1, 8, 8), corners, torch.full((4,), 6.0), torch.ones(4))
    n_covered = (result == 0).sum(dim=(1, 2, 3))
    # From 3 pixels before the centre to 2 behind it.
    assert n_covered.tolist() == [9, 12, 12, 16]


def sizes_of_holes(length: list[float], holes: list[float], side: int = 101) -> list[int]:
    """Covered pixels of images in which no hole meets another or a border, by a grid of centres."""
    centres = torch.tensor([[0.2, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.8]]).expand(len(length), -1, -1)
    images = torch.ones(len(length), 1, side, side)
    result = with_holes(images, centres, torch.tensor(length), torch.tensor(holes))
    return (result == 0).sum(dim=(1, 2, 3)).tolist()


def test_the_covered_area_is_the_number_times_the_square_of_the_length() -> None:
    assert sizes_of_holes([5, 5, 5, 6, 1], [0, 1, 4, 3, 2]) == [0, 25, 100, 108, 2]


def test_lengths_and_numbers_are_rounded_to_the_nearest_whole_number(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[tuple[list[float], list[float]]] = []

    def note(images: Tensor, centres: Tensor, length: Tensor, holes: Tensor) -> Tensor:
        notes.append((length.tolist(), holes.tolist()))
        return images

    monkeypatch.setattr("hba.regularization.on_images.with_holes", note)
    given = torch.tensor([0.0, 0.49, 0.51, 1.4, 3.6, 4.0])
    cutout(torch.ones(6, 1, 4, 4), seeded(), length=6 * given, holes=given, most_holes=MOST)
    assert notes == [([0, 3, 3, 8, 22, 24], [0, 0, 1, 1, 4, 4])]


def test_both_ends_of_the_range_are_reached() -> None:
    """A number of 4 makes 4 holes, of 24 pixels."""
    images = torch.ones(300, 1, 200, 200)
    result = cutout(images, seeded(5), length=torch.full((300,), 24.0), holes=torch.full((300,), 4.0), most_holes=MOST)
    assert int((result == 0).sum(dim=(1, 2, 3)).max()) == 4 * 24 * 24


def test_no_more_than_the_most_holes_are_made() -> None:
    images, length = torch.ones(50, 1, 20, 20), torch.ones(50)
    result = cutout(images, seeded(6), length=length, holes=torch.full((50,), 9.0), most_holes=2)
    n_covered = (result == 0).sum(dim=(1, 2, 3))
    assert int(n_covered.max()) == 2
    assert torch.equal(cutout(images, seeded(6), length=length, holes=length, most_holes=0), images)


def test_centres_are_uniform_over_the_pixels() -> None:
    n = 60_000
    images, one = torch.ones(n, 1, 3, 5), torch.ones(n)
    covered = cutout(images, seeded(7), length=one, holes=one, most_holes=1)[:, 0] == 0
    assert torch.equal(covered.sum(dim=(1, 2)), torch.ones(n, dtype=torch.int64))
    np.testing.assert_allclose(covered.double().mean(dim=0), 1 / 15, rtol=0.06)


def test_holes_of_an_image_are_independent() -> None:
    """Of two holes of one pixel, both are the same of 15 pixels once in 15 times."""
    n = 60_000
    one = torch.ones(n)
    result = cutout(torch.ones(n, 1, 3, 5), seeded(8), length=one, holes=2 * one, most_holes=2)
    np.testing.assert_allclose(((result == 0).sum(dim=(1, 2, 3)) == 1).double().mean(), 1 / 15, rtol=0.06)
