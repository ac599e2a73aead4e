"""Cutout with a length and a number of holes per image, against a slow loop and counts of what is covered."""

import math

import pytest
import torch
from each import each
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


@each("size", [(32, 32), (9, 14), (1, 5)])
@each("channels", [1, 3, 5])
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


def test_lengths_and_numbers_are_rounded_to_the_nearest_whole_number(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[tuple[list[float], list[float]]] = []

    def note(images: Tensor, centres: Tensor, length: Tensor, holes: Tensor) -> Tensor:
        notes.append((length.tolist(), holes.tolist()))
        return images

    monkeypatch.setattr("hba.regularization.on_images.with_holes", note)
    given = torch.tensor([0.0, 0.49, 0.51, 1.4, 3.6, 4.0])
    cutout(torch.ones(6, 1, 4, 4), seeded(), length=6 * given, holes=given, most_holes=MOST)
    assert notes == [([0, 3, 3, 8, 22, 24], [0, 0, 1, 1, 4, 4])]
