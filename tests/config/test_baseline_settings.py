"""The settings that make the baseline augmentation."""

from typing import Any

import pytest

from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from hba.preprocessing.baseline import Baseline


def test_the_baseline_is_the_datasets() -> None:
    # Flip, crop and 16x16 Cutout for CIFAR; 20x20 Cutout alone for SVHN (DeVries and Taylor 2017).
    assert SearchConfig(data="cifar10").baseline_augmentation() == Baseline(flip=True, crop_padding=4, cutout_size=16)
    assert SearchConfig(data="svhn").baseline_augmentation() == Baseline(flip=False, crop_padding=0, cutout_size=20)


@pytest.mark.parametrize("data", ["digits", "my/images"])
def test_other_data_is_not_flipped_cropped_or_cut(data: str) -> None:
    assert SearchConfig(data=data).baseline_augmentation() == Baseline(flip=False, crop_padding=0, cutout_size=0)


def test_each_part_of_the_baseline_can_be_set_and_switched_off() -> None:
    off = SearchConfig(data="cifar10", flip=False, crop_padding=0, cutout_size=0)
    assert off.baseline_augmentation() == Baseline(flip=False, crop_padding=0, cutout_size=0)
    part = EvaluationConfig(data="cifar10", crop_padding=2)
    assert part.baseline_augmentation() == Baseline(flip=True, crop_padding=2, cutout_size=16)
    assert SearchConfig(data="digits", flip=True).baseline_augmentation() == Baseline(flip=True)


@pytest.mark.parametrize(("side", "crop_padding", "cutout_size"), [(16, 4, 16), (32, 8, 32), (8, 2, 8)])
def test_inherited_sizes_in_pixels_go_with_the_images(side: int, crop_padding: int, cutout_size: int) -> None:
    searched = {"data": "my/images", "image_size": 16, "flip": True, "crop_padding": 4, "cutout_size": 16}
    config = EvaluationConfig.like_search(searched, {"image_size": side})
    assert config.baseline_augmentation() == Baseline(flip=True, crop_padding=crop_padding, cutout_size=cutout_size)
    assert EvaluationConfig.like_search(searched, {"image_size": side, "cutout_size": 3}).cutout_size == 3


@pytest.mark.parametrize("stage", [SearchConfig, EvaluationConfig])
@pytest.mark.parametrize(("side", "crop_padding"), [(32, 4), (16, 2), (64, 8)])
def test_auto_flips_and_crops_a_folder_as_cifar_10_but_without_cutout(
    stage: type[SearchConfig | EvaluationConfig], side: int, crop_padding: int
) -> None:
    config = stage(data="my/images", baseline="auto", image_size=side)
    assert config.baseline_augmentation() == Baseline(flip=True, crop_padding=crop_padding)
    assert stage(data="my/images", baseline="auto", flip=False).baseline_augmentation() == Baseline(crop_padding=4)
    assert stage(data="my/images", image_size=side).baseline_augmentation() == Baseline()


@pytest.mark.parametrize("data", ["digits", "cifar10", "svhn"])
def test_auto_is_a_named_dataset_s_own_baseline_and_none_is_no_baseline(data: str) -> None:
    own = SearchConfig(data=data).baseline_augmentation()
    assert SearchConfig(data=data, baseline="auto").baseline_augmentation() == own
    assert SearchConfig(data=data, baseline="none").baseline_augmentation() == Baseline()


def test_no_baseline_and_a_dataset_s_baseline_cannot_both_be_asked_for() -> None:
    with pytest.raises(SettingsError, match="baseline none and baseline_like cifar10 contradict each other"):
        SearchConfig.make({"data": "my/images", "baseline": "none", "baseline_like": "cifar10"})


def test_a_folder_without_a_baseline_is_told_of_the_option() -> None:
    note = EvaluationConfig(data="my/images").baseline_note() or ""
    assert "not even a flip" in note
    assert "--baseline auto adds flip and crop" in note
    assert SearchConfig(data="my/images").resolved().baseline_note() == note
    for told in ({"baseline": "none"}, {"baseline": "auto"}, {"flip": True}, {"baseline_like": "cifar10"}):
        assert SearchConfig.make({"data": "my/images", **told}).resolved().baseline_note() is None
    assert SearchConfig(data="digits").baseline_note() is None


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, Baseline()),
        ({"baseline": "auto"}, Baseline(flip=True, crop_padding=4)),
        ({"baseline_like": "cifar10"}, Baseline(flip=True, crop_padding=4, cutout_size=16)),
    ],
    ids=["as searched", "auto", "like"],
)
def test_a_baseline_given_to_an_evaluation_replaces_the_search_s(given: dict[str, Any], expected: Baseline) -> None:
    searched = SearchConfig(data="my/images").resolved().flat()
    assert EvaluationConfig.like_search(searched, given).baseline_augmentation() == expected


def test_a_baseline_given_goes_before_the_one_of_a_preset_s_dataset() -> None:
    settings = {"data": "my/images", "baseline": "none"}
    assert SearchConfig.from_preset(settings, "reduced-cifar10").baseline_augmentation() == Baseline()
    assert EvaluationConfig.like_search({}, settings, "cifar10-wrn-40-2").baseline_augmentation() == Baseline()
