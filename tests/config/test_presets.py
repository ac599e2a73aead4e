"""Presets against the numbers of the paper's Tables 10 and 11."""

from typing import Any

import pytest

from hba.config.evaluation import EvaluationConfig
from hba.config.presets import DEFAULT_PRESETS, EVALUATION_PRESETS, SEARCH_PRESETS, find_preset
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from hba.preprocessing.baseline import Baseline

TABLE_10: dict[str, dict[str, Any]] = {
    "reduced-cifar10": {
        "data": "cifar10",
        "train_size": 4000,
        "val_size": 10000,
        "model": "wrn-40-2",
        "epochs": 200,
        "learning_rate": 0.05,
        "weight_decay": 0.005,
        "batch_size": 128,
        "lambda_learning_rate": 0.03,
    },
    "reduced-svhn": {
        "data": "svhn",
        "train_size": 4000,
        "val_size": 10000,
        "model": "wrn-40-2",
        "epochs": 160,
        "learning_rate": 0.01,
        "weight_decay": 0.01,
        "batch_size": 128,
        "lambda_learning_rate": 0.02,
    },
    "reduced-imagenet": {
        "data": "imagenet",
        "classes": "imagenet-120",
        "image_size": 32,
        "train_size": 6000,
        "val_size": 10000,
        "model": "wrn-40-2",
        "epochs": 270,
        "learning_rate": 0.1,
        "learning_rate_schedule": "step",
        "weight_decay": 0.001,
        "batch_size": 128,
        "lambda_learning_rate": 0.007,
    },
}
for dataset in ("cifar10", "cifar100"):
    for model in ("wrn-40-2", "wrn-28-10"):
        TABLE_10[f"{dataset}-{model}"] = {
            "data": dataset,
            "train_size": 40000,
            "val_size": 10000,
            "model": model,
            "epochs": 200,
            "learning_rate": 0.1,
            "weight_decay": 0.0005,
            "batch_size": 128,
            "lambda_learning_rate": 0.003,
        }

TABLE_11 = {
    # name: (data, model, LR, schedule, WD, BS, epochs)
    "cifar10-wrn-40-2": ("cifar10", "wrn-40-2", 0.1, "cosine", 0.0005, 128, 200),
    "cifar10-wrn-28-10": ("cifar10", "wrn-28-10", 0.1, "cosine", 0.0005, 128, 200),
    "cifar10-shake-shake-26-2x32d": ("cifar10", "shake-shake-26-2x32d", 0.01, "cosine", 0.001, 128, 1800),
    "cifar10-shake-shake-26-2x96d": ("cifar10", "shake-shake-26-2x96d", 0.01, "cosine", 0.001, 128, 1800),
    "cifar10-shake-shake-26-2x112d": ("cifar10", "shake-shake-26-2x112d", 0.01, "cosine", 0.001, 128, 1800),
    "cifar10-pyramidnet-272-200": ("cifar10", "pyramidnet-272-200", 0.05, "cosine", 0.00005, 64, 1800),
    "cifar100-wrn-40-2": ("cifar100", "wrn-40-2", 0.1, "cosine", 0.0005, 128, 200),
    "cifar100-wrn-28-10": ("cifar100", "wrn-28-10", 0.1, "cosine", 0.0005, 128, 200),
    "cifar100-shake-shake-26-2x96d": ("cifar100", "shake-shake-26-2x96d", 0.01, "cosine", 0.0025, 128, 1800),
    "cifar100-pyramidnet-272-200": ("cifar100", "pyramidnet-272-200", 0.025, "cosine", 0.0005, 64, 1800),
    "svhn-wrn-28-10": ("svhn-full", "wrn-28-10", 0.005, "cosine", 0.001, 128, 160),
    "svhn-shake-shake-26-2x96d": ("svhn-full", "shake-shake-26-2x96d", 0.01, "cosine", 0.00015, 128, 160),
    "imagenet-resnet-50": ("imagenet", "resnet-50", 0.1, "step", 0.0001, 256, 270),
}
COLUMNS_11 = ("data", "model", "learning_rate", "learning_rate_schedule", "weight_decay", "batch_size", "epochs")


@pytest.mark.parametrize("name", TABLE_10)
def test_presets_are_the_papers_table_10(name: str) -> None:
    assert dict(find_preset(name)) == TABLE_10[name]


@pytest.mark.parametrize("name", TABLE_10)
def test_a_preset_makes_a_search_config_with_its_numbers(name: str) -> None:
    config = SearchConfig.from_preset({}, name).flat()
    assert {setting: config[setting] for setting in TABLE_10[name]} == TABLE_10[name]


@pytest.mark.parametrize("name", TABLE_10)
def test_what_the_paper_uses_in_all_its_searches_is_set_for_each(name: str) -> None:
    config = SearchConfig.from_preset({}, name, paper=True).flat()
    assert (config["train_steps"], config["val_steps"], config["sharing"]) == (2, 1, "first-bn")
    assert config["sigma"] == 1


@pytest.mark.parametrize(
    ("data", "preset"),
    [
        ("cifar10", "reduced-cifar10"),
        ("svhn", "reduced-svhn"),
        ("cifar100", "cifar100-wrn-40-2"),
        ("imagenet", "reduced-imagenet"),
    ],
)
def test_a_dataset_brings_its_preset(data: str, preset: str) -> None:
    config = SearchConfig.from_preset({"data": data}).flat()
    assert {setting: config[setting] for setting in TABLE_10[preset]} == TABLE_10[preset]


def test_without_settings_a_search_runs_on_the_digits_of_which_it_takes_200_and_500() -> None:
    config = SearchConfig.from_preset({})
    assert (config.data, config.train_size, config.val_size) == ("digits", 200, 500)


@pytest.mark.parametrize("data", ["fashionmnist", "some/folder"])
def test_data_without_a_preset_gets_the_general_defaults(data: str) -> None:
    assert SearchConfig.from_preset({"data": data}) == SearchConfig(data=data)


def test_settings_override_the_preset_and_leave_its_other_numbers() -> None:
    config = SearchConfig.from_preset({"epochs": 3, "val_size": 500}, "reduced-svhn").flat()
    expected = {**TABLE_10["reduced-svhn"], "epochs": 3, "val_size": 500}
    assert {setting: config[setting] for setting in expected} == expected


def test_a_preset_can_be_used_on_other_data() -> None:
    config = SearchConfig.from_preset({"data": "my/images"}, "reduced-cifar10").flat()
    expected = {**TABLE_10["reduced-cifar10"], "data": "my/images", "baseline_like": "cifar10"}
    assert {setting: config[setting] for setting in expected} == expected


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="unknown preset 'cifar'") as raised:
        SearchConfig.from_preset({}, "cifar")
    assert all(name in str(raised.value) for name in [*TABLE_10, "digits"])


def test_presets_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        SEARCH_PRESETS["new"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        DEFAULT_PRESETS["digits"] = "cifar10"  # type: ignore[index]


def test_there_are_presets_for_all_of_table_10_and_digits_and_for_all_of_table_11() -> None:
    assert set(SEARCH_PRESETS) == {*TABLE_10, "digits"}
    assert set(EVALUATION_PRESETS) == set(TABLE_11)


@pytest.mark.parametrize("name", TABLE_11)
def test_an_evaluation_preset_makes_a_config_with_the_numbers_of_table_11(name: str) -> None:
    config = EvaluationConfig.like_search({}, {}, name).model_dump()
    assert tuple(config[column] for column in COLUMNS_11) == TABLE_11[name]


@pytest.mark.parametrize(("name", "image_size"), [("svhn-wrn-28-10", 32), ("imagenet-resnet-50", 224)])
def test_an_evaluation_of_a_reduced_task_is_on_whole_images(name: str, image_size: int) -> None:
    searched = SearchConfig.from_preset({}, f"reduced-{name.partition('-')[0]}")
    config = EvaluationConfig.like_search(searched.resolved().flat(), {}, name)
    assert (config.side, config.train_size, config.classes) == (image_size, None, None)


def test_a_preset_stands_above_the_search_s_settings_and_below_those_given() -> None:
    searched = {"data": "cifar10", "model": "wrn-10-1", "epochs": 7, "batch_size": 9, "flip": False, "split_seed": 5}
    config = EvaluationConfig.like_search(searched, {"epochs": 3}, "cifar10-wrn-40-2")
    assert (config.model, config.epochs, config.batch_size, config.split_seed) == ("wrn-40-2", 3, 128, 5)
    assert config.baseline_augmentation() == Baseline(flip=True, crop_padding=4, cutout_size=16)


@pytest.mark.parametrize("side", [32, 16])
def test_on_other_data_a_preset_brings_the_baseline_of_its_dataset(side: int) -> None:
    expected = Baseline(flip=True, crop_padding=side // 8, cutout_size=side // 2)
    settings = {"data": "my/images", "image_size": side}
    assert SearchConfig.from_preset(settings, "reduced-cifar10").baseline_augmentation() == expected
    assert EvaluationConfig.like_search({}, settings, "cifar10-wrn-40-2").baseline_augmentation() == expected
    own = SearchConfig.from_preset(
        {**settings, "flip": False, "baseline_like": "svhn"}, "reduced-cifar10"
    ).baseline_augmentation()
    assert own == Baseline(cutout_size=side * 20 // 32)


def test_an_unknown_evaluation_preset_or_dataset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="unknown preset 'reduced-cifar10'; known: cifar10-wrn-40-2"):
        EvaluationConfig.like_search({}, {}, "reduced-cifar10")
    with pytest.raises(
        SettingsError, match="baseline_like: unknown dataset 'cifar'; did you mean cifar10\\? Known: digits"
    ):
        SearchConfig.make({"baseline_like": "cifar"})


@pytest.mark.parametrize("data", ["svhn", "svhn-full", "digits"])
def test_on_another_dataset_by_name_a_preset_leaves_it_its_own_baseline(data: str) -> None:
    own = SearchConfig.make({"data": data}).baseline_augmentation()
    assert SearchConfig.from_preset({"data": data}, "reduced-cifar10").baseline_augmentation() == own
    assert EvaluationConfig.like_search({}, {"data": data}, "cifar10-wrn-28-10").baseline_augmentation() == own


def test_a_folder_does_not_get_the_preset_s_list_of_classes() -> None:
    config = SearchConfig.from_preset({"data": "my/images"}, "reduced-imagenet")
    assert (config.classes, config.image_size, config.baseline_augmentation().random_resized_crop) == (None, 32, True)
    assert SearchConfig.from_preset({}, "reduced-imagenet").classes == "imagenet-120"
