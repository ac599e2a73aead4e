"""Flip, crop and Cutout, image by image, against all results that are possible, and the
whole against its parts.
"""

from itertools import pairwise, permutations

import numpy as np
import pytest
import torch
from random_inputs import seeded
from torch import Tensor
from torchvision.transforms import RandomResizedCrop
from torchvision.transforms.v2 import functional as TF

from hba.policy_search.config import SearchConfig
from hba.preprocessing import (
    BASELINES,
    Baseline,
    Preprocessing,
    color_jitter,
    jittered,
    pca_jitter,
    random_boxes,
    random_crop,
    random_cutout,
    resized_crop,
)

FLIP = Preprocessing(torch.zeros(1), torch.ones(1), Baseline(flip=True), image_size=4)
"""Standardizes nothing, and does not use the size."""


def generator(seed: int = 0) -> torch.Generator:
    return seeded(seed)


def noise(batch: int, height: int, width: int) -> Tensor:
    return torch.rand(batch, 3, height, width, generator=generator(9))


def distinct(batch: int, height: int, width: int) -> Tensor:
    """Images with a value of its own for every pixel and image, none of them 0."""
    return torch.arange(1, batch * 3 * height * width + 1, dtype=torch.float32).reshape(
        batch, 3, height, width
    )


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


@pytest.mark.parametrize(("height", "width", "padding"), [(5, 7, 1), (7, 5, 2)])
def test_crops_come_from_all_places_of_the_padded_image_alike_often(
    height: int, width: int, padding: int
) -> None:
    images = distinct(1500, height, width)
    crops = random_crop(images, padding, generator())
    assert crops.shape == images.shape
    places = [
        offset_of(*pair, padding)
        for pair in zip(images.numpy(), crops.numpy(), strict=True)
    ]
    times = [places.count(place) for place in set(places)]
    assert len(times) == (2 * padding + 1) ** 2
    expected = len(images) / len(times)
    # Five standard deviations of a count.
    assert max(abs(count - expected) for count in times) < 5 * expected**0.5


def test_about_half_of_the_images_are_mirrored_left_to_right_each_on_its_own() -> None:
    images = distinct(1000, 4, 5)
    flipped = FLIP.train(images, generator())
    mirrored = []
    for before, after in zip(images.numpy(), flipped.numpy(), strict=True):
        same = np.array_equal(after, before)
        mirror = np.array_equal(after, before[:, :, ::-1])
        assert same != mirror
        mirrored.append(mirror)
    # Five standard deviations of 16 about 500.
    assert 420 < sum(mirrored) < 580
    changes = sum(first != second for first, second in pairwise(mirrored))
    assert 420 < changes < 580


def possible_masks(height: int, width: int, size: int) -> dict[bytes, tuple[int, int]]:
    """Cutout as DeVries and Taylor wrote it: from centre - size // 2 to centre + size
    // 2, cut off at the borders.
    """
    masks = {}
    for row in range(height):
        for column in range(width):
            mask = np.zeros((height, width), dtype=bool)
            rows = slice(max(0, row - size // 2), row + size // 2)
            columns = slice(max(0, column - size // 2), column + size // 2)
            mask[rows, columns] = True
            masks[mask.tobytes()] = (row, column)
    return masks


@pytest.mark.parametrize(("height", "width", "size"), [(8, 8, 4), (6, 9, 2)])
def test_cutout_is_the_square_of_devries_and_taylor_about_every_pixel_alike_often(
    height: int, width: int, size: int
) -> None:
    images = distinct(3000, height, width)
    masks = possible_masks(height, width, size)
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


ADJUST = (TF.adjust_brightness, TF.adjust_contrast, TF.adjust_saturation)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_jitters_are_torchvisions_one_after_the_other(order: tuple[int, ...]) -> None:
    images = noise(4, 9, 7)
    factors = torch.empty(4, 3).uniform_(0.6, 1.4, generator=generator(1))
    result = jittered(images, factors, torch.tensor(order).expand(4, 3))
    for image, factor_row, after in zip(images, factors.tolist(), result, strict=True):
        expected = image
        for jitter in order:
            expected = ADJUST[jitter](expected, factor_row[jitter])
        # The mean grey of contrast is a whole level here, as in PIL.
        torch.testing.assert_close(after, expected, atol=1 / 255, rtol=0)


def test_pca_jitter_adds_the_eigenvectors_times_eigenvalues_times_alpha() -> None:
    values = np.array([0.2175, 0.0188, 0.0045])
    vectors = np.array(
        [
            [-0.5675, 0.7192, 0.4009],
            [-0.5808, -0.0045, -0.8140],
            [-0.5836, -0.6948, 0.4203],
        ]
    )
    images = noise(5, 9, 7)
    alpha = (torch.randn(5, 3, generator=generator(7)) * 0.1).double().numpy()
    offsets = (pca_jitter(images, 0.1, generator(7)) - images).double()
    for offset, drawn in zip(offsets, alpha, strict=True):
        expected = vectors @ (drawn * values)
        np.testing.assert_allclose(
            offset.numpy(),
            np.broadcast_to(expected[:, None, None], (3, 9, 7)),
            atol=1e-6,
        )


@pytest.mark.parametrize(
    ("box", "size"),
    [
        ((0, 0, 12, 10), 12), ((2, 3, 6, 6), 6), ((1, 2, 4, 4), 12),
        ((1, 2, 4, 4), 8), ((8, 6, 4, 4), 4), ((3, 1, 5, 7), 9),
        ((0, 9, 12, 1), 5), ((11, 0, 1, 1), 3), ((0, 0, 12, 10), 5),
    ],
)  # fmt: skip
def test_a_box_is_cut_out_and_resized_as_torchvision_does_without_antialiasing(
    box: tuple[int, int, int, int], size: int
) -> None:
    images = noise(2, 12, 10)
    expected = TF.resized_crop(images, *box, [size, size], antialias=False)
    torch.testing.assert_close(
        resized_crop(images, torch.tensor([box, box]), size),
        expected,
        atol=1e-5,
        rtol=0,
    )


@pytest.mark.parametrize(("height", "width"), [(64, 64), (40, 48)])
def test_boxes_are_distributed_as_torchvisions(height: int, width: int) -> None:
    n = 4000
    ours = random_boxes(n, height, width, generator()).double()
    torch.manual_seed(0)
    drawn = [
        RandomResizedCrop.get_params(
            torch.empty(3, height, width), (0.08, 1.0), (3 / 4, 4 / 3)
        )
        for _ in range(n)
    ]
    theirs = torch.tensor([list(box) for box in drawn]).double()
    spread = (ours.var(dim=0) + theirs.var(dim=0)).sqrt() / n**0.5
    assert bool(((ours.mean(dim=0) - theirs.mean(dim=0)).abs() < 5 * spread).all())
    torch.testing.assert_close(ours.std(dim=0), theirs.std(dim=0), rtol=0.06, atol=0)


MEAN, STD = (
    torch.tensor([0.4, 0.5, 0.6])[:, None, None],
    torch.tensor([0.2, 0.3, 0.25])[:, None, None],
)


def test_imagenets_baseline_is_crop_then_jitters_then_standardisation_then_flip() -> (
    None
):
    images = noise(12, 16, 16)
    draws = generator(5)
    expected = resized_crop(images, random_boxes(12, 16, 16, draws), 14)
    expected = pca_jitter(color_jitter(expected, 0.4, draws), 0.1, draws)
    expected = FLIP.train((expected - MEAN) / STD, draws)
    result = Preprocessing(MEAN[None], STD[None], BASELINES["imagenet"], 14).train(
        images, generator(5)
    )
    assert torch.equal(result, expected)
    assert result.shape == (12, 3, 14, 14)


def test_images_are_stored_larger_where_they_are_cropped() -> None:
    config = SearchConfig(data="imagenet")
    assert (config.side, config.stored_size) == (224, 256)
    assert config.baseline_augmentation() == BASELINES["imagenet"]
    assert SearchConfig(data="imagenet", random_resized_crop=False).stored_size == 224
    assert SearchConfig(data="imagenet", image_size=112).stored_size == 128
    assert SearchConfig(data="cifar10").stored_size == 32
    assert SearchConfig(data="cifar10", random_resized_crop=True).stored_size == 37
    assert (
        SearchConfig(
            data="some/folder", baseline_like="imagenet", image_size=224
        ).stored_size
        == 256
    )
