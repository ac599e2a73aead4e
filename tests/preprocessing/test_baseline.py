"""Flip, crop and Cutout, image by image, against all results that are possible."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from each import each
from torch import Tensor

from hba.preprocessing.baseline import Baseline, augment, random_crop, random_cutout


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def distinct(batch: int, height: int, width: int) -> Tensor:
    """Images with a value of its own for every pixel and image, none of them 0."""
    return torch.arange(1, batch * 3 * height * width + 1, dtype=torch.float32).reshape(batch, 3, height, width)


def offset_of(image: np.ndarray, crop: np.ndarray, padding: int) -> tuple[int, int]:
    """The one place at which the padded image holds the crop."""
    height, width = image.shape[1:]
    padded = np.pad(image, ((0, 0), (padding, padding), (padding, padding)))
    places = [
        (row, column)
        for row in range(2 * padding + 1)
        for column in range(2 * padding + 1)
        if np.array_equal(padded[:, row : row + height, column : column + width], crop)
    ]
    assert len(places) == 1
    return places[0]


@each(("height", "width", "padding"), [(5, 7, 1), (7, 5, 2)])
def test_crops_come_from_all_places_of_the_padded_image_alike_often(height: int, width: int, padding: int) -> None:
    images = distinct(1500, height, width)
    crops = random_crop(images, padding, generator())
    assert crops.shape == images.shape
    places = [offset_of(*pair, padding) for pair in zip(images.numpy(), crops.numpy(), strict=True)]
    times = [places.count(place) for place in set(places)]
    assert len(times) == (2 * padding + 1) ** 2
    expected = len(images) / len(times)
    # Five standard deviations of a count.
    assert max(abs(count - expected) for count in times) < 5 * expected**0.5


def test_about_half_of_the_images_are_mirrored_left_to_right_each_on_its_own() -> None:
    images = distinct(1000, 4, 5)
    flipped = augment(images, Baseline(flip=True), generator())
    mirrored = []
    for before, after in zip(images.numpy(), flipped.numpy(), strict=True):
        same, mirror = np.array_equal(after, before), np.array_equal(after, before[:, :, ::-1])
        assert same != mirror
        mirrored.append(mirror)
    # Five standard deviations of 16 about 500.
    assert 420 < sum(mirrored) < 580
    changes = sum(first != second for first, second in pairwise(mirrored))
    assert 420 < changes < 580


def possible_masks(height: int, width: int, size: int) -> dict[bytes, tuple[int, int]]:
    """Cutout as DeVries and Taylor wrote it: from centre - size // 2 to centre + size // 2, cut off at the borders."""
    masks = {}
    for row in range(height):
        for column in range(width):
            mask = np.zeros((height, width), dtype=bool)
            rows = slice(max(0, row - size // 2), row + size // 2)
            columns = slice(max(0, column - size // 2), column + size // 2)
            mask[rows, columns] = True
            masks[mask.tobytes()] = (row, column)
    return masks


@each(("height", "width", "size"), [(8, 8, 4), (6, 9, 2)])
def test_cutout_is_the_square_of_devries_and_taylor_about_every_pixel_alike_often(
    height: int, width: int, size: int
) -> None:
    images, masks = distinct(3000, height, width), possible_masks(height, width, size)
    cut = random_cutout(images, size, generator()).numpy()
    covered = cut == 0
    assert np.array_equal(cut[~covered], images.numpy()[~covered])
    assert all((image == image[0]).all() for image in covered)
    centres = [masks[image[0].tobytes()] for image in covered]
    times = [centres.count(centre) for centre in set(masks.values())]
    expected = len(images) / (height * width)
    # Every centre has a square of its own, so that the square tells the centre.
    assert len(masks) == height * width
    assert min(times) > 0
    assert max(abs(count - expected) for count in times) < 5 * expected**0.5


@each(("size", "side"), [(16, 32), (20, 32)])
def test_cutout_covers_its_full_area_where_it_meets_no_border(size: int, side: int) -> None:
    areas = (random_cutout(distinct(2000, side, side), size, generator()) == 0)[:, 0].sum(dim=(1, 2))
    assert int(areas.max()) == size**2
    assert int(areas.min()) < size**2 / 2
    # side - size + 1 of `side` places in each direction leave it whole.
    whole = ((side - size + 1) / side) ** 2
    assert float((areas == size**2).float().mean()) == pytest.approx(whole, abs=0.06)


def test_all_together_is_flip_then_crop_then_cutout() -> None:
    images, baseline = distinct(300, 8, 8), Baseline(flip=True, crop_padding=1, cutout_size=4)
    after = augment(images, baseline, generator()).numpy()
    masks, seen = possible_masks(8, 8, 4), set()
    for before, image in zip(images.numpy(), after, strict=True):
        matches = []
        for mirror in (False, True):
            padded = np.pad(before[:, :, ::-1] if mirror else before, ((0, 0), (1, 1), (1, 1)))
            for row in range(3):
                for column in range(3):
                    crop = padded[:, row : row + 8, column : column + 8]
                    kept = image != 0
                    if np.array_equal(image[kept], crop[kept]):
                        covered = (image[0] == 0) & (crop[0] != 0)
                        assert any((covered <= np.frombuffer(m, bool).reshape(8, 8)).all() for m in masks)
                        matches.append((mirror, row, column))
        assert len(matches) == 1
        seen.add(matches[0])
    assert len(seen) == 2 * 3 * 3
