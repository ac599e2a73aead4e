"""From images to a network's input: sizes, order, and that the older baselines draw as they did."""

import torch
from torch import Tensor

from hba.policy_search.config import SearchConfig
from hba.preprocessing import (
    BASELINES,
    Baseline,
    Preprocessing,
    Standardize,
    augment,
    color_jitter,
    pca_jitter,
    random_resized_crop,
)

STANDARDIZE = Standardize(
    torch.tensor([0.4, 0.5, 0.6])[None, :, None, None], torch.tensor([0.2, 0.3, 0.25])[None, :, None, None]
)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def noise(side: int) -> Tensor:
    return torch.rand(12, 3, side, side, generator=generator(9))


def test_imagenets_baseline_is_crop_then_jitters_then_standardisation_then_flip() -> None:
    images, draws = noise(16), generator(5)
    expected = random_resized_crop(images, 14, draws)
    expected = pca_jitter(color_jitter(expected, 0.4, draws), 0.1, draws)
    expected = augment(STANDARDIZE(expected), Baseline(flip=True), draws)
    result = Preprocessing(STANDARDIZE, BASELINES["imagenet"], 14).train(images, generator(5))
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
    assert SearchConfig(data="some/folder", baseline_like="imagenet", image_size=224).stored_size == 256
