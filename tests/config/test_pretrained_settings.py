"""What networks start from, and what trains them: settings that go together, and what an evaluation inherits."""

from pathlib import Path
from typing import Any

import pytest

from hba.config.evaluation import EvaluationConfig
from hba.config.training import TrainingConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig

MODEL = "timm:resnet10t"


def made(**settings: Any) -> SearchConfig:
    return SearchConfig.make({"data": "some/images", "model": MODEL, **settings})


@pytest.mark.parametrize(
    ("given", "expected"),
    [(True, "timm"), ("timm", "timm"), (False, None), ("none", None), (None, None), ("/a/../w.pth", "/w.pth")],
)
def test_weights_are_timms_a_files_or_none(given: Any, expected: str | None) -> None:
    assert made(pretrained=given).pretrained == expected


def test_a_file_is_kept_by_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert {made(pretrained=name).pretrained for name in ("w.pth", Path("w.pth"))} == {str(tmp_path / "w.pth")}


@pytest.mark.parametrize(("given", "expected"), [(2, "2"), ("2", "2"), ("none", "none"), ("all-but-head",) * 2])
def test_what_is_frozen_is_a_word_or_a_number(given: Any, expected: str) -> None:
    assert made(pretrained=True, freeze=given).freeze == expected


@pytest.mark.parametrize("given", [0, -1, 1.5, True, "head", "", None, "01"])
def test_other_parts_are_refused(given: Any) -> None:
    with pytest.raises(SettingsError, match="freeze must be none, all-but-head, or a number of groups of layers from"):
        made(pretrained=True, freeze=given)


def test_pretrained_weights_bring_their_image_size_and_their_colours_unless_others_are_given() -> None:
    config = made(pretrained=True)
    assert (config.side, made(pretrained=True, image_size=64).side, made().side) == (176, 64, 32)
    assert made(pretrained=True, data="cifar10").side == 176
    assert config.colors_of_network() == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert made().colors_of_network() is made(pretrained=True, standardize_by="images").colors_of_network() is None
    resolved = config.resolved()
    assert (resolved.image_size, resolved.standardize_by) == (176, "network")
    assert made().resolved().standardize_by is None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"freeze": 1}, "freeze has no effect on fresh weights; give pretrained ones, or omit it"),
        ({"standardize_by": "network"}, "standardize_by network has no effect on fresh weights"),
        ({"pretrained": True, "model": "wrn-16-2"}, "pretrained has no effect on the model 'wrn-16-2', only on timm's"),
        ({"model": f"{MODEL}.c3_in1k"}, "weights are loaded only where pretrained is given"),
        (
            {"pretrained": True, "model": f"{MODEL}.c4"},
            "unknown tag of weights in timm model 'resnet10t.c4'; known: ",
        ),
        (
            {"learning_rate_warm_up_epochs": 200},
            "learning_rate_warm_up_epochs must be fewer than all epochs, got 200",
        ),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError) as raised:
        made(**settings)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def rates(config: TrainingConfig) -> tuple[float, float]:
    return config.learning_rate, config.weight_decay


OF_SGD, OF_ADAMW = (0.05, 0.005), (0.001, 0.05)


def test_adamw_has_a_learning_rate_and_a_decay_of_its_own() -> None:
    assert (rates(made()), rates(made(optimizer="adamw"))) == (OF_SGD, OF_ADAMW)
    assert rates(made(optimizer="adamw", learning_rate=0.3)) == (0.3, 0.05)
    assert rates(SearchConfig.from_preset({"data": "cifar10", "optimizer": "adamw"})) == OF_ADAMW
    assert rates(SearchConfig.from_preset({"data": "cifar10"})) == (0.05, 0.005)


SEARCHED: dict[str, Any] = {
    **{"data": "some/images", "model": MODEL, "pretrained": "/w.pth", "freeze": "2", "standardize_by": "network"},
    **{"image_size": 40, "optimizer": "adamw", "learning_rate": 0.002, "weight_decay": 0.1, "epochs": 8},
    **{"learning_rate_warm_up_epochs": 3},
}


def evaluated(searched: dict[str, Any] | None = None, **given: Any) -> EvaluationConfig:
    preset, own = given.pop("preset", None), given.pop("has_own_network", False)
    return EvaluationConfig.like_search({**SEARCHED, **(searched or {})}, given, preset, has_own_network=own)


def start_of(config: EvaluationConfig) -> tuple[Any, ...]:
    return config.pretrained, config.freeze, config.standardize_by


def test_an_evaluation_starts_and_trains_as_the_search() -> None:
    config = evaluated()
    assert start_of(config) == ("/w.pth", "2", "network")
    assert (config.optimizer, *rates(config), config.learning_rate_warm_up_epochs) == ("adamw", 0.002, 0.1, 3)
    assert (config.side, config.epochs) == (40, 8)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"pretrained": "none"}, (None, "none", None)),
        ({"pretrained": "/other.pth"}, ("/other.pth", "2", "network")),
        ({"freeze": "none"}, ("/w.pth", "none", "network")),
        ({"model": "timm:resnet18"}, (None, "none", None)),
        ({"model": "timm:resnet18", "pretrained": True}, ("timm", "none", None)),
        ({"model": MODEL}, ("/w.pth", "2", "network")),
        ({"has_own_network": True}, (None, "none", None)),
        ({"preset": "cifar10-wrn-40-2"}, (None, "none", None)),
    ],
)
def test_weights_are_inherited_for_the_network_that_they_are_of(given: dict[str, Any], expected: Any) -> None:
    assert start_of(evaluated(**given)) == expected


def test_rates_go_with_their_optimizer() -> None:
    assert rates(evaluated(optimizer="sgd")) == OF_SGD
    assert rates(evaluated({"optimizer": "sgd"}, optimizer="adamw")) == OF_ADAMW
    by_preset = evaluated(preset="cifar10-wrn-40-2")
    assert (by_preset.optimizer, rates(by_preset)) == ("sgd", (0.1, 0.0005))
    assert by_preset.learning_rate_warm_up_epochs == 0
    assert rates(evaluated(preset="cifar10-wrn-40-2", optimizer="adamw")) == (0.002, 0.1)


def test_both_kinds_of_momentum_have_the_same_rates() -> None:
    assert rates(made(optimizer="sgd-classical")) == OF_SGD
    preset = SearchConfig.from_preset({"data": "svhn", "optimizer": "sgd-classical"})
    assert (preset.optimizer, rates(preset)) == ("sgd-classical", rates(SearchConfig.from_preset({"data": "svhn"})))
    for first, second in (("sgd", "sgd-classical"), ("sgd-classical", "sgd"), ("sgd-classical", "sgd-classical")):
        config = evaluated({"optimizer": first}, optimizer=second)
        assert (config.optimizer, rates(config)) == (second, (0.002, 0.1))
    assert rates(evaluated({"optimizer": "sgd-classical"}, optimizer="adamw")) == OF_ADAMW
    assert evaluated({"optimizer": "sgd-classical"}).optimizer == "sgd-classical"


def test_the_papers_table_is_for_trainings_like_its_own() -> None:
    on_cifar = {"data": "cifar10", "learning_rate": 0.01}
    for searched in ({**on_cifar, "optimizer": "sgd"}, {**on_cifar, "pretrained": None, "freeze": "none"}):
        config = evaluated({"standardize_by": None, **searched})
        assert (config.epochs, config.learning_rate) == (8, 0.01), "pretrained weights, or AdamW"
    plain = {"pretrained": None, "freeze": "none", "standardize_by": None, "optimizer": "sgd"}
    config = evaluated({**on_cifar, **plain, "optimizer": "sgd-classical"})
    assert (config.epochs, config.learning_rate) == (8, 0.01), "another momentum"
    config = evaluated({**on_cifar, **plain})
    assert (config.epochs, config.learning_rate) == (200, 0.1)


def test_what_a_schedule_names_is_read_unless_both_images_and_weights_are_given() -> None:
    named = {"data": "/theirs/images", "pretrained": "/theirs/w.pth"}
    read = {
        "nothing": evaluated(named),
        "images": evaluated(named, data="/mine"),
        "both": evaluated(named, data="/mine", pretrained="none"),
    }
    assert {what: (config.data, config.pretrained) for what, config in read.items()} == {
        "nothing": ("/theirs/images", "/theirs/w.pth"),
        "images": ("/mine", "/theirs/w.pth"),
        "both": ("/mine", None),
    }
