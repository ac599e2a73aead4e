"""From images to a network's input: sizes, order, and that the older baselines draw as they did."""

from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

import hba
from hba.config.evaluation import EvaluationConfig
from hba.data import LabelledImages, SearchData
from hba.policy_search.config import SearchConfig
from hba.preprocessing.baseline import (
    BASELINES,
    Baseline,
    augment,
    color_jitter,
    network_side,
    pca_jitter,
    random_resized_crop,
    stored_side,
)
from hba.preprocessing.preprocessing import Preprocessing, Standardize

STANDARDIZE = Standardize(
    torch.tensor([0.4, 0.5, 0.6])[None, :, None, None], torch.tensor([0.2, 0.3, 0.25])[None, :, None, None]
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(side: int) -> Tensor:
    return torch.rand(12, 3, side, side, generator=generator(9))


def test_imagenets_baseline_is_crop_flip_colour_and_pca_jitter_without_cutout() -> None:
    assert BASELINES["imagenet"] == Baseline(flip=True, random_resized_crop=True, color_jitter=0.4, pca_jitter=0.1)


def test_imagenets_baseline_is_crop_then_jitters_then_standardisation_then_flip() -> None:
    images, draws = noise(16), generator(5)
    expected = random_resized_crop(images, 14, draws)
    expected = pca_jitter(color_jitter(expected, 0.4, draws), 0.1, draws)
    expected = augment(STANDARDIZE(expected), Baseline(flip=True), draws)
    result = Preprocessing(STANDARDIZE, BASELINES["imagenet"], 14).train(images, generator(5))
    assert torch.equal(result, expected)
    assert result.shape == (12, 3, 14, 14)


def test_images_for_measuring_are_cut_out_of_the_middle() -> None:
    images = noise(16)
    measured = Preprocessing(STANDARDIZE, BASELINES["imagenet"], 14).measure(images)
    assert torch.equal(measured, STANDARDIZE(images[:, :, 1:15, 1:15]))


@pytest.mark.parametrize("name", ["cifar10", "cifar100", "svhn", "svhn-full", "fashionmnist", None])
def test_the_other_baselines_draw_nothing_more(name: str | None) -> None:
    images, baseline = noise(32), BASELINES[name] if name else Baseline()
    preprocessing = Preprocessing(STANDARDIZE, baseline, 32)
    expected = augment(STANDARDIZE(images), baseline, generator(5))
    draws = generator(5)
    assert torch.equal(preprocessing.train(images, draws), expected)
    after = generator(5)
    augment(images, baseline, after)
    assert torch.equal(draws.get_state(), after.get_state())
    assert torch.equal(preprocessing.measure(images), STANDARDIZE(images))


def test_flip_is_drawn_before_crop_and_cutout_as_ever() -> None:
    # Numbers of the first release: the draws of a seed must not change with it.
    images = torch.arange(2 * 3 * 4 * 4, dtype=torch.float32).reshape(2, 3, 4, 4)
    draws = generator(0)
    flipped = torch.rand(2, 1, 1, 1, generator=draws) < 0.5
    offsets = torch.randint(3, (2, 2, 1), generator=draws)
    expected = torch.nn.functional.pad(torch.where(flipped, images.flip(3), images), [1] * 4)
    cut = [
        image[:, row : row + 4, column : column + 4]
        for image, row, column in zip(expected, *offsets[..., 0].tolist(), strict=True)
    ]
    assert torch.equal(augment(images, Baseline(flip=True, crop_padding=1), generator(0)), torch.stack(cut))


def test_images_are_stored_larger_where_they_are_cropped() -> None:
    config = SearchConfig(data="imagenet")
    assert (config.side, config.stored_size) == (224, 256)
    assert config.baseline_augmentation() == BASELINES["imagenet"]
    assert SearchConfig(data="imagenet", random_resized_crop=False).stored_size == 224
    assert SearchConfig(data="imagenet", image_size=112).stored_size == 128
    assert SearchConfig(data="cifar10").stored_size == 32
    assert SearchConfig(data="cifar10", random_resized_crop=True).stored_size == 37
    assert SearchConfig(data="some/folder", baseline_like="imagenet", image_size=224).stored_size == 256


def test_written_out_settings_stand_for_the_same_images() -> None:
    config = SearchConfig(data="imagenet", color_jitter=0.2, pca_jitter=0)
    assert config.baseline_augmentation() == Baseline(flip=True, random_resized_crop=True, color_jitter=0.2)
    resolved = config.resolved()
    assert (resolved.image_size, resolved.random_resized_crop, resolved.color_jitter) == (224, True, 0.2)
    assert (resolved.stored_size, resolved.baseline_augmentation()) == (
        config.stored_size,
        config.baseline_augmentation(),
    )
    evaluated = EvaluationConfig.like_search(resolved.model_dump(), {})
    assert (evaluated.stored_size, evaluated.baseline_augmentation()) == (256, config.baseline_augmentation())


def test_the_size_for_the_network_is_found_again_from_the_size_that_is_stored() -> None:
    assert all(network_side(stored_side(side)) == side for side in range(8, 1025))
    images = LabelledImages(torch.zeros(2, 3, 256, 256, dtype=torch.uint8), torch.zeros(2).long())
    assert Preprocessing.of(images, BASELINES["imagenet"]).image_size == 224
    assert Preprocessing.of(images, BASELINES["cifar10"]).image_size == 256


def test_a_search_in_memory_takes_images_as_stored_ones() -> None:
    generator = torch.Generator().manual_seed(0)
    images = [torch.randint(0, 256, (12, 3, 16, 16), generator=generator).to(torch.uint8) for _ in range(2)]
    train, val = (LabelledImages(part, torch.arange(12) % 2) for part in images)
    data = SearchData("small", ("a", "b"), train, val)
    sizes: set[tuple[int, ...]] = set()

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bn, self.linear = nn.BatchNorm2d(3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            sizes.add(tuple(x.shape[1:]))
            return cast(Tensor, self.linear(self.bn(x).mean(dim=(2, 3))))

    settings: dict[str, Any] = {"epochs": 1, "batch_size": 6, "device": "cpu", "baseline_like": "imagenet"}
    result = hba.search(data, network=Network(), **settings)
    assert sizes == {(3, 14, 14)}
    assert result.schedule is not None
    assert result.schedule.provenance["image_size"] == 16
    assert result.schedule.provenance["settings"]["image_size"] == 14
