"""Cutout covers a square of whole pixels with one colour, and touches no other pixel."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pil_comparison import by_hba, every_size, fill_of
from pil_reference import cutout as pil_cutout
from torch import Tensor

from hba.operations import OPERATIONS

CUTOUT = OPERATIONS["Cutout"]
# Every width and height, odd and even.
SIDES = st.integers(1, 40)
FILL = torch.tensor([0.8, 0.1, 0.3])
POSITIONS = ((0.5, 0.5), (0.0, 0.0), (0.999, 0.999), (0.03, 0.71), (0.62, 0.97))


class Square(NamedTuple):
    """Pixels [left, right) x [top, bottom), which may lie outside the image."""

    left: int
    top: int
    right: int
    bottom: int

    def area_within(self, width: int, height: int) -> int:
        across = max(0, min(self.right, width) - max(self.left, 0))
        down = max(0, min(self.bottom, height) - max(self.top, 0))
        return across * down


def square_of(side: int, centre_x: int, centre_y: int) -> Square:
    """About the centre pixel, one more pixel before it than after it where the side is even."""
    left, top = centre_x - side // 2, centre_y - side // 2
    return Square(left, top, left + side, top + side)


def covered_by(images: Tensor, size: Tensor, position: Tensor) -> Tensor:
    """Which pixels (B, H, W) Cutout covers; also checks that it leaves all others, bit by bit."""
    fill = FILL[: images.shape[1]]
    result = CUTOUT(images, size, fill=fill, position=position)
    covered = (result == fill[:, None, None]).all(dim=1)
    assert torch.equal(result, torch.where(covered[:, None], fill[:, None, None], images))
    return covered


def images_without_the_fill_colour(count: int, channels: int, height: int, width: int) -> Tensor:
    generator = torch.Generator().manual_seed(height * 100 + width)
    return torch.rand(count, channels, height, width, generator=generator) * 0.05


@settings(max_examples=200, deadline=None)
@given(st.data(), SIDES, SIDES, st.sampled_from([1, 3]))
def test_the_area_is_side_times_side_or_what_of_it_lies_inside(
    data: st.DataObject, height: int, width: int, channels: int
) -> None:
    shorter = min(height, width)
    sides = [data.draw(st.integers(0, shorter)) for _ in range(4)]
    centres = [(data.draw(st.integers(0, width - 1)), data.draw(st.integers(0, height - 1))) for _ in range(4)]
    # A little above the side's own fraction, and in the middle of the centre pixel: nothing depends on a rounding.
    size = torch.tensor([(side + 0.2) / shorter for side in sides])
    position = torch.tensor([((x + 0.5) / width, (y + 0.5) / height) for x, y in centres])
    covered = covered_by(images_without_the_fill_colour(4, channels, height, width), size, position)
    squares = [square_of(side, *centre) for side, centre in zip(sides, centres, strict=True)]
    assert covered.sum(dim=(1, 2)).tolist() == [square.area_within(width, height) for square in squares]
    for pixels, square in zip(covered, squares, strict=True):
        box = pixels[max(square.top, 0) : max(square.bottom, 0), max(square.left, 0) : max(square.right, 0)]
        assert box.all()


@pytest.mark.parametrize(("height", "width"), [(32, 32), (33, 33), (31, 48), (48, 31), (21, 20)])
def test_a_square_inside_has_side_times_side_pixels(height: int, width: int) -> None:
    """Every side in turn, odd and even, in the middle of the image."""
    shorter = min(height, width)
    sides = torch.arange(shorter + 1)
    position = torch.full((len(sides), 2), 0.5)
    images = images_without_the_fill_colour(len(sides), 3, height, width)
    covered = covered_by(images, (sides + 0.2) / shorter, position)
    assert covered.sum(dim=(1, 2)).tolist() == [side * side for side in sides.tolist()]
    assert covered.any(dim=1).sum(dim=1).tolist() == sides.tolist()
    assert covered.any(dim=2).sum(dim=1).tolist() == sides.tolist()


@pytest.mark.parametrize("size", [0.0, 0.011, 0.07, 0.133, 0.1999, 0.2, 0.5, 1.0])
@pytest.mark.parametrize("shorter", [1, 7, 10, 32, 224])
def test_the_side_is_the_rounded_fraction_of_the_shorter_side(size: float, shorter: int) -> None:
    expected = round(size * shorter)
    for height, width in ((shorter, shorter), (shorter, 300), (300, shorter)):
        images = images_without_the_fill_colour(1, 1, height, width)
        covered = covered_by(images, torch.tensor([size]), torch.tensor([[0.5, 0.5]]))
        assert int(covered.sum()) == expected * expected


@pytest.mark.parametrize("shorter", [7, 10, 32, 45, 224])
def test_halves_are_rounded_as_python_rounds_the_float32_number(shorter: int) -> None:
    """Exact halves go to the even side; most are no float32 number, and lie on one side of it."""
    size = (torch.arange(shorter) + 0.5) / shorter
    images = images_without_the_fill_colour(len(size), 1, shorter, shorter)
    covered = covered_by(images, size, torch.full((len(size), 2), 0.5))
    expected = [round(number * shorter) for number in size.tolist()]
    assert covered.any(dim=1).sum(dim=1).tolist() == expected


@pytest.mark.parametrize(("height", "width"), [(32, 32), (45, 71), (29, 10)])
def test_any_size_and_place_equal_a_rectangle_of_pil(height: int, width: int) -> None:
    """Random ones, and places on the borders between pixels as near as float32 numbers come."""
    images = images_without_the_fill_colour(300, 1, height, width)
    size = torch.rand(300, generator=torch.Generator().manual_seed(1))
    position = torch.rand(300, 2, generator=torch.Generator().manual_seed(2))
    position[::2] = (position[::2] * torch.tensor([width, height])).floor() / torch.tensor([width, height])
    covered = covered_by(images, size, position)
    for pixels, number, (x, y) in zip(covered, size.tolist(), position.tolist(), strict=True):
        expected = pil_cutout(Image.new("L", (width, height)), number, (255,), (x, y))
        np.testing.assert_array_equal(pixels.numpy(), np.asarray(expected) == 255)


@pytest.mark.parametrize("size", [0.0, 0.011, 0.07, 0.133, 0.1999])
@pytest.mark.parametrize("position", POSITIONS)
def test_it_equals_a_rectangle_of_pil(size: float, position: tuple[float, float]) -> None:
    for images in every_size():
        expected = []
        for image in images:
            given = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
            expected.append(np.asarray(pil_cutout(given, size, fill_of(images), position)).reshape(image.shape))
        np.testing.assert_array_equal(by_hba("Cutout", images, size, [position] * len(images)), np.stack(expected))


def test_it_is_in_the_middle_unless_placed() -> None:
    images = images_without_the_fill_colour(2, 3, 20, 30)
    size = torch.tensor([0.2, 0.15])
    placed = CUTOUT(images, size, fill=FILL, position=torch.full((2, 2), 0.5))
    assert torch.equal(CUTOUT(images, size, fill=FILL), placed)


def test_all_places_together_cover_each_pixel_as_often_as_can_be_counted() -> None:
    height, width, side = 10, 14, 5
    position = torch.tensor([((x + 0.5) / width, (y + 0.5) / height) for y in range(height) for x in range(width)])
    images = images_without_the_fill_colour(height * width, 1, height, width)
    covered = covered_by(images, torch.full((height * width,), side / height), position)
    # A pixel is covered from the side x side centres about it, as far as they lie in the image.
    along_x = [sum(0 <= x + shift < width for shift in range(-2, 3)) for x in range(width)]
    along_y = [sum(0 <= y + shift < height for shift in range(-2, 3)) for y in range(height)]
    assert covered.sum(dim=0).tolist() == [[in_row * in_column for in_column in along_x] for in_row in along_y]
