"""Presets against the paper's tables, and what an evaluation takes over from the search
of its schedule.
"""

from pathlib import Path
from typing import Any

import pytest

from hba.config.evaluation import EvaluationConfig, inherited
from hba.config.presets import DEFAULT_PRESETS
from hba.config.training import TrainingConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from hba.preprocessing import Baseline

COLUMNS = ("data", "model", "epochs", "learning_rate", "weight_decay", "batch_size")


def columns_of(config: TrainingConfig, *more_columns: str) -> tuple[Any, ...]:
    settings = config.model_dump()
    return tuple(settings[column] for column in (*COLUMNS, *more_columns))


def test_presets_are_those_of_the_papers_tables() -> None:
    for name, expected in (
        ("reduced-svhn", ("svhn", "wrn-40-2", 160, 0.01, 0.01, 128, 4000, 10000)),
        (
            "cifar100-wrn-28-10",
            ("cifar100", "wrn-28-10", 200, 0.1, 0.0005, 128, 40000, 10000),
        ),
    ):
        assert (
            columns_of(
                SearchConfig.from_preset({}, name, paper=True), "train_size", "val_size"
            )
            == expected
        )
    for name, of_table in (
        (
            "cifar10-pyramidnet-272-200",
            ("cifar10", "pyramidnet-272-200", 1800, 0.05, 0.00005, 64, "cosine"),
        ),
        (
            "imagenet-resnet-50",
            ("imagenet", "resnet-50", 270, 0.1, 0.0001, 256, "step"),
        ),
    ):
        assert (
            columns_of(
                EvaluationConfig.like_search({}, {}, name), "learning_rate_schedule"
            )
            == of_table
        )
    imagenet = SearchConfig.from_preset({}, "reduced-imagenet")
    assert (imagenet.classes, imagenet.image_size, imagenet.learning_rate_schedule) == (
        "imagenet-120",
        32,
        "step",
    )
    for data, preset in DEFAULT_PRESETS.items():
        assert SearchConfig.from_preset({"data": data}) == SearchConfig.from_preset(
            {}, preset
        )
    for data in ("fashionmnist", "some/folder"):
        assert SearchConfig.from_preset({"data": data}) == SearchConfig.make(
            {"data": data}
        )


def test_given_settings_override_a_preset_and_other_data_keep_its_baseline() -> None:
    config = SearchConfig.from_preset(
        {"epochs": 3, "data": "my/images"}, "reduced-imagenet"
    )
    assert (config.epochs, config.data, config.classes, config.baseline_like) == (
        3,
        "my/images",
        None,
        "imagenet",
    )
    for side in (32, 16):
        expected = Baseline(flip=True, crop_padding=side // 8, cutout_size=side // 2)
        settings = {"data": "my/images", "image_size": side}
        assert (
            SearchConfig.from_preset(
                settings, "reduced-cifar10"
            ).baseline_augmentation()
            == expected
        )
        assert (
            EvaluationConfig.like_search(
                {}, settings, "cifar10-wrn-40-2"
            ).baseline_augmentation()
            == expected
        )
    off = {"data": "my/images", "baseline": "none"}
    assert (
        SearchConfig.from_preset(off, "reduced-cifar10").baseline_augmentation()
        == Baseline()
    )
    for data in ("svhn", "svhn-full", "digits"):
        of_data_set = SearchConfig.make({"data": data}).baseline_augmentation()
        assert (
            SearchConfig.from_preset(
                {"data": data}, "reduced-cifar10"
            ).baseline_augmentation()
            == of_data_set
        )
    for unknown in ("cifar", "reduced-cifar"):
        with pytest.raises(SettingsError, match=f"'{unknown}'.*reduced-cifar10"):
            SearchConfig.from_preset({}, unknown)


def test_the_baseline_is_the_datasets_and_each_part_can_be_set() -> None:
    # Flip, crop and 16x16 Cutout for CIFAR; 20x20 Cutout alone for SVHN (DeVries and
    # Taylor 2017).
    cifar = Baseline(flip=True, crop_padding=4, cutout_size=16)
    for settings, expected in (
        ({"data": "cifar10"}, cifar),
        ({"data": "cifar10", "baseline": "auto"}, cifar),
        ({"data": "cifar10", "baseline": "none"}, Baseline()),
        (
            {"data": "cifar10", "crop_padding": 2},
            Baseline(flip=True, crop_padding=2, cutout_size=16),
        ),
        ({"data": "svhn"}, Baseline(cutout_size=20)),
        ({"data": "digits"}, Baseline()),
        ({"data": "digits", "flip": True}, Baseline(flip=True)),
        ({"data": "my/images"}, Baseline()),
        ({"data": "my/images", "baseline_like": "cifar10"}, cifar),
        (
            {"data": "my/images", "baseline": "auto"},
            Baseline(flip=True, crop_padding=4),
        ),
        (
            {"data": "my/images", "baseline": "auto", "image_size": 64},
            Baseline(flip=True, crop_padding=8),
        ),
    ):
        for stage in (SearchConfig, EvaluationConfig):
            assert stage.make(settings).baseline_augmentation() == expected, settings
    note = SearchConfig(data="my/images").resolved().baseline_note() or ""
    assert "--baseline auto" in note
    for choice in (
        {"baseline": "none"},
        {"baseline": "auto"},
        {"flip": True},
        {"data": "digits"},
    ):
        assert (
            SearchConfig.make({"data": "my/images", **choice})
            .resolved()
            .baseline_note()
            is None
        )


SEARCHED: dict[str, Any] = {
    "data": "my/photos", "model": "wrn-10-1", "epochs": 7, "image_size": 16,
    "split_seed": 4, "classes": "list.txt", "flip": True, "crop_padding": 2,
    "train_size": 50, "seed": 8, "algorithm": "lookahead",
}  # fmt: skip
OF_FOLDER = {"image_size": 16, "split_seed": 4}
BASELINE = {"flip": True, "crop_padding": 2}


def test_a_search_passes_on_how_it_trained_and_what_fits_the_evaluated_images() -> None:
    training = {"model": "wrn-10-1", "epochs": 7}
    assert inherited({**SEARCHED, "model": None}, {}, "cifar10") == {"epochs": 7}
    for data, settings, has_preset, expected in (
        (
            "my/photos",
            {},
            False,
            {"data": "my/photos", "classes": "list.txt", **OF_FOLDER, **BASELINE},
        ),
        ("moved/photos", {}, False, {**OF_FOLDER, **BASELINE}),
        ("cifar10", {}, False, {}),
        ("moved/photos", {}, True, OF_FOLDER),
        ("moved/photos", {"baseline": "auto"}, False, OF_FOLDER),
        ("moved/photos", {"baseline_like": "svhn"}, False, OF_FOLDER),
        (
            "moved/photos",
            {"image_size": 32},
            False,
            {**OF_FOLDER, "flip": True, "crop_padding": 4},
        ),
    ):
        expected = expected if has_preset else {**training, **expected}
        assert inherited(SEARCHED, settings, data, has_preset=has_preset) == expected


def test_layers_override_each_other() -> None:
    config = EvaluationConfig.like_search(SEARCHED, {"epochs": 2, "data": "other"})
    assert (config.epochs, config.model, config.flip, config.seeds) == (
        2,
        "wrn-10-1",
        True,
        3,
    )
    assert EvaluationConfig.like_search(SEARCHED, {}, "cifar10-wrn-40-2").epochs == 200
    assert (
        EvaluationConfig.like_search(SEARCHED, {"data": "cifar10"}).learning_rate == 0.1
    ), "the paper's Table 11"


def test_what_an_evaluation_cannot_have_is_refused() -> None:
    of_own_network = {**SEARCHED, "model": None}
    for searched, settings, words in (
        (of_own_network, {}, "model"),
        (SEARCHED, {"val_size": 3}, "val_size"),
        (
            SEARCHED,
            {"learning_rate_schedule": "plateau"},
            "learning_rate_schedule plateau",
        ),
    ):
        with pytest.raises(SettingsError, match=words):
            EvaluationConfig.like_search(searched, settings)
    assert (
        EvaluationConfig.like_search(of_own_network, {"model": "wrn-16-3"}).model
        == "wrn-16-3"
    )
    assert (
        EvaluationConfig.like_search(of_own_network, {}, has_own_network=True).epochs
        == 7
    )


MODEL = "timm:resnet10t"


def made(**settings: Any) -> SearchConfig:
    return SearchConfig.make({"data": "some/images", "model": MODEL, **settings})


def test_weights_are_timms_a_files_or_none_and_bring_their_size_and_colours(
    tmp_path: Path,
) -> None:
    for value, expected in (
        (True, "timm"),
        (False, None),
        ("none", None),
        (None, None),
        ("/a/../w.pth", "/w.pth"),
    ):
        assert made(pretrained=value).pretrained == expected
    for freeze, expected in (
        (2, "2"),
        ("2", "2"),
        ("none", "none"),
        ("all-but-head", "all-but-head"),
    ):
        assert made(pretrained=True, freeze=freeze).freeze == expected
    assert (
        made(pretrained=True).side,
        made(pretrained=True, image_size=64).side,
        made().side,
    ) == (176, 64, 32)
    assert made(pretrained=True).colors_of_network() == (
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
    )
    assert (
        made().colors_of_network()
        is made(pretrained=True, standardize_by="images").colors_of_network()
        is None
    )
    resolved = made(pretrained=True).resolved()
    assert (resolved.image_size, resolved.standardize_by) == (176, "network")


TUNED: dict[str, Any] = {
    "data": "some/images",
    "model": MODEL,
    "pretrained": "/w.pth",
    "freeze": "2",
    "standardize_by": "network",
    "image_size": 40,
    "optimizer": "adamw",
    "learning_rate": 0.002,
    "weight_decay": 0.1,
    "epochs": 8,
}
FRESH = (None, "none", None)


def evaluated(
    searched: dict[str, Any] | None = None, **settings: Any
) -> EvaluationConfig:
    preset = settings.pop("preset", None)
    is_own_network = settings.pop("has_own_network", False)
    return EvaluationConfig.like_search(
        {**TUNED, **(searched or {})}, settings, preset, has_own_network=is_own_network
    )


def test_weights_are_inherited_for_the_network_that_they_are_of() -> None:
    for settings, expected in (
        ({}, ("/w.pth", "2", "network")),
        ({"pretrained": "none"}, FRESH),
        ({"pretrained": "/other.pth"}, ("/other.pth", "2", "network")),
        ({"freeze": "none"}, ("/w.pth", "none", "network")),
        ({"model": "timm:resnet18"}, FRESH),
        ({"model": "timm:resnet18", "pretrained": True}, ("timm", "none", None)),
        ({"model": MODEL}, ("/w.pth", "2", "network")),
        ({"has_own_network": True}, FRESH),
        ({"preset": "cifar10-wrn-40-2"}, FRESH),
        ({"data": "/mine"}, ("/w.pth", "2", "network")),
    ):
        config = evaluated(**settings)
        assert (
            config.pretrained,
            config.freeze,
            config.standardize_by,
        ) == expected, settings


def rates(config: TrainingConfig) -> tuple[float, float]:
    return config.learning_rate, config.weight_decay


def test_rates_belong_to_their_optimizer() -> None:
    of_sgd = (0.05, 0.005)
    of_adamw = (0.001, 0.05)
    of_search = (0.002, 0.1)
    assert (rates(made()), rates(made(optimizer="adamw"))) == (of_sgd, of_adamw)
    assert (
        rates(SearchConfig.from_preset({"data": "cifar10", "optimizer": "adamw"}))
        == of_adamw
    )
    assert (rates(evaluated()), rates(evaluated(optimizer="sgd"))) == (
        of_search,
        of_sgd,
    )
    for first, second in (("sgd", "sgd-classical"), ("sgd-classical", "sgd")):
        assert rates(evaluated({"optimizer": first}, optimizer=second)) == of_search
        assert rates(evaluated({"optimizer": first}, optimizer="adamw")) == of_adamw
    assert rates(evaluated(preset="cifar10-wrn-40-2")) == (0.1, 0.0005)
    assert rates(evaluated(preset="cifar10-wrn-40-2", optimizer="adamw")) == of_search
    # The paper's table is for trainings from fresh weights by SGD.
    on_cifar: dict[str, Any] = {
        "data": "cifar10",
        "pretrained": None,
        "freeze": "none",
        "standardize_by": None,
    }
    assert rates(evaluated(on_cifar)) == of_search
    assert rates(evaluated({**on_cifar, "optimizer": "sgd-classical"})) == of_search
    assert rates(evaluated({**on_cifar, "optimizer": "sgd"})) == (0.1, 0.0005)
