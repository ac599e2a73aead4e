"""Presets against the numbers of the paper's Table 10."""

from typing import Any

import pytest

from hba.config import SearchConfig
from hba.errors import SettingsError
from hba.presets import DEFAULT_PRESETS, PRESETS, find_preset

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
    "cifar10": {
        "data": "cifar10",
        "train_size": 40000,
        "val_size": 10000,
        "model": "wrn-40-2",
        "epochs": 200,
        "learning_rate": 0.1,
        "weight_decay": 0.0005,
        "batch_size": 128,
        "lambda_learning_rate": 0.003,
    },
}
TABLE_10["cifar100"] = {**TABLE_10["cifar10"], "data": "cifar100"}


@pytest.mark.parametrize("name", TABLE_10)
def test_presets_are_the_papers_table_10(name: str) -> None:
    assert dict(find_preset(name)) == TABLE_10[name]


@pytest.mark.parametrize("name", TABLE_10)
def test_a_preset_makes_a_search_config_with_its_numbers(name: str) -> None:
    config = SearchConfig.from_preset({}, name).model_dump()
    assert {setting: config[setting] for setting in TABLE_10[name]} == TABLE_10[name]


@pytest.mark.parametrize("name", TABLE_10)
def test_what_the_paper_uses_in_all_its_searches_is_the_default(name: str) -> None:
    config = SearchConfig.from_preset({}, name)
    assert (config.train_steps, config.val_steps, config.sharing) == (2, 1, "first-bn")
    assert config.sigma == 1


@pytest.mark.parametrize(
    ("data", "preset"),
    [("cifar10", "reduced-cifar10"), ("svhn", "reduced-svhn"), ("cifar100", "cifar100")],
)
def test_a_dataset_brings_its_preset(data: str, preset: str) -> None:
    config = SearchConfig.from_preset({"data": data}).model_dump()
    assert {setting: config[setting] for setting in TABLE_10[preset]} == TABLE_10[preset]


def test_without_settings_a_search_runs_on_the_digits_of_which_it_takes_200_and_500() -> None:
    config = SearchConfig.from_preset({})
    assert (config.data, config.train_size, config.val_size) == ("digits", 200, 500)


@pytest.mark.parametrize("data", ["fashionmnist", "some/folder"])
def test_data_without_a_preset_gets_the_general_defaults(data: str) -> None:
    assert SearchConfig.from_preset({"data": data}) == SearchConfig(data=data)


def test_settings_override_the_preset_and_leave_its_other_numbers() -> None:
    config = SearchConfig.from_preset({"epochs": 3, "val_size": 500}, "reduced-svhn").model_dump()
    expected = {**TABLE_10["reduced-svhn"], "epochs": 3, "val_size": 500}
    assert {setting: config[setting] for setting in expected} == expected


def test_a_preset_can_be_used_on_other_data() -> None:
    config = SearchConfig.from_preset({"data": "my/images"}, "reduced-cifar10").model_dump()
    expected = {**TABLE_10["reduced-cifar10"], "data": "my/images"}
    assert {setting: config[setting] for setting in expected} == expected


def test_an_unknown_preset_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match="unknown preset 'cifar'") as raised:
        SearchConfig.from_preset({}, "cifar")
    assert all(name in str(raised.value) for name in [*TABLE_10, "digits"])


def test_presets_cannot_be_changed_by_accident() -> None:
    with pytest.raises(TypeError):
        PRESETS["new"] = {}  # type: ignore[index]
    with pytest.raises(TypeError):
        DEFAULT_PRESETS["digits"] = "cifar10"  # type: ignore[index]
