"""Settings: what is refused, how, and what overrides what."""

import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
import pytest
import torch
from small_trainings import one_operation

import hba
from hba.algorithms import Lookahead
from hba.config.evaluation import EvaluationConfig
from hba.data.config import DataConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from hba.utils.devices import find_device

WRONG: dict[str, list[Any]] = {
    "data": [5, None],
    "image_size": [7, 1025, 16.5, "big"],
    "train_size": [0, -1, 2.5],
    "val_size": [0, "many"],
    "split_seed": [-1, 2**32],
    "download": ["perhaps"],
    "model": ["resnet-7", "wrn-11-2", "wrn-16-0", 3],
    "epochs": [0, 1.5, None],
    "batch_size": [0, -128],
    "learning_rate": [0, -0.1, float("nan"), float("inf"), "fast"],
    "weight_decay": [-1e-9, float("nan"), float("inf")],
    "flip": ["sometimes"],
    "crop_padding": [-1, 0.5],
    "cutout_size": [-1],
    "device": ["tpu-9", "cuda:x", "", "cpu:x"],
}
WRONG_SEARCH: dict[str, list[Any]] = {
    "sharing": ["batchnorm", "", None],
    "lambda_learning_rate": [0, -1, float("nan")],
    "train_steps": [0, 0.5],
    "val_steps": [-1],
    "sigma": [-0.1, float("inf"), float("nan")],
    "calibrate": ["maybe"],
    "validate_every": [0],
    "seed": [-1, 2**32, 0.5],
    "space": [3, None],
    "operations": ["", " , ", 5],
    "interpolation": ["bicubic", "Nearest", "", None],
    "fill": ["0.1,,0.2", "1.5", "-0.1", "nan", "", 0.5],
    "algorithm": ["HBA", "", None],
    "response": ["affin", "", None],
    "response_weight_decay": [-0.1, float("nan")],
    "initial_fraction": [0, 1, -0.1, float("nan")],
    "warm_up_epochs": [-1, 0.5],
    "trust_radius": [0, -1, float("inf")],
    "logit_bound": [0, -1, float("inf")],
    "val_batch_size": [0, "all", "halff"],
    "val_batches": [0, 1.5],
    "val_statistics": ["Batch", None],
    "sigma_end": [-0.1, float("inf")],
    "spread_share": [0, -0.5, 1.1, float("nan")],
    "reward_limit": [0, -2],
    "probes": [-1, 0.5, None],
    "epoch": [200],
    "lambda-learning-rate": [0.1],
}


ALGORITHM_WITH = {name: {"algorithm": "hba"} for name in ("sharing", "response", "response_weight_decay")}
"""What has to be set for a setting that the default algorithm does not have."""


def values_of(wrong: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(name, value, id=f"{name}={value}") for name, values in wrong.items() for value in values]


@pytest.mark.parametrize(("name", "value"), values_of({**WRONG, **WRONG_SEARCH}))
def test_a_wrong_search_setting_is_refused_in_one_line_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as raised:
        SearchConfig.make({**ALGORITHM_WITH.get(name, {}), name: value})
    message = str(raised.value)
    assert re.match(rf"(unknown |there is no setting )?{name}\b", message)
    assert len(message.splitlines()) == 1
    assert repr(value) in message or message.startswith("there is no setting")
    assert message.count("got ") <= 1


@pytest.mark.parametrize(("name", "value"), values_of({**WRONG, "seeds": [0, -1, 1.5], "sigma": [1.0], "seed": [0]}))
def test_a_wrong_evaluation_setting_is_refused_in_one_line_that_names_it(name: str, value: Any) -> None:
    with pytest.raises(SettingsError) as raised:
        EvaluationConfig.make({name: value})
    assert re.match(rf"(unknown |there is no setting )?{name}\b", str(raised.value))
    assert len(str(raised.value).splitlines()) == 1


def test_a_misspelt_setting_is_told_what_was_probably_meant() -> None:
    with pytest.raises(SettingsError, match=r"^there is no setting epoch; did you mean epochs\?$"):
        SearchConfig.from_preset({"epoch": 1})
    with pytest.raises(SettingsError, match=r"got 'lookahed'; did you mean lookahead\?$"):
        SearchConfig.from_preset({"algorithm": "lookahed"})
    with pytest.raises(SettingsError, match=r"^there is no setting momentum$"):
        EvaluationConfig.make({"momentum": True})


@pytest.mark.parametrize("data", [5, None, ["digits"], {"a": 1}])
def test_from_preset_refuses_wrong_data_like_any_other_wrong_setting(data: Any) -> None:
    with pytest.raises(SettingsError, match=r"^data must be a text"):
        SearchConfig.from_preset({"data": data})


def test_a_folder_is_kept_by_its_absolute_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "images").mkdir()
    monkeypatch.chdir(tmp_path)
    expected = str(tmp_path.resolve() / "images")
    assert SearchConfig.from_preset({"data": "images"}).data == expected
    assert SearchConfig.from_preset({"data": Path("images")}).data == expected


def test_the_name_of_a_dataset_stays_though_a_folder_has_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "digits").mkdir()
    monkeypatch.chdir(tmp_path)
    assert SearchConfig.from_preset({"data": "digits"}).data == "digits"


SEARCHED = SearchConfig(
    data="digits", model="wrn-22-3", epochs=7, batch_size=9, learning_rate=0.3, weight_decay=0.2, device="cpu",
    image_size=20, split_seed=4, skip_broken=True, flip=True, crop_padding=3, cutout_size=5, train_size=50, val_size=60,
).flat()  # fmt: skip
TRAINING = ("model", "epochs", "batch_size", "learning_rate", "weight_decay")
IMAGES = ("image_size", "split_seed", "skip_broken", "flip", "crop_padding", "cutout_size")


def test_an_evaluation_on_the_searched_images_trains_like_the_search_but_on_all_of_them() -> None:
    config = EvaluationConfig.like_search(SEARCHED, {}).model_dump()
    assert {name: config[name] for name in TRAINING + IMAGES} == {name: SEARCHED[name] for name in TRAINING + IMAGES}
    assert (config["data"], config["train_size"]) == ("digits", None)


def test_an_evaluation_on_other_images_leaves_what_belongs_to_the_searched_ones() -> None:
    config = EvaluationConfig.like_search(SEARCHED, {"data": "other/images"}).model_dump()
    assert {name: config[name] for name in TRAINING} == {name: SEARCHED[name] for name in TRAINING}
    defaults = DataConfig().model_dump() | {"flip": None, "crop_padding": None, "cutout_size": None}
    assert {name: config[name] for name in IMAGES} == {name: defaults[name] for name in IMAGES}


def test_settings_of_an_evaluation_override_those_of_the_search_and_of_the_paper() -> None:
    config = EvaluationConfig.like_search(SEARCHED, {"data": "cifar10", "epochs": 2, "seeds": 5})
    assert (config.data, config.epochs, config.seeds) == ("cifar10", 2, 5)
    # The paper's training of wide ResNets on CIFAR-10 stands before the search's settings.
    assert (config.learning_rate, config.weight_decay, config.batch_size) == (0.1, 0.0005, 128)
    assert config.model == "wrn-22-3"


def test_an_unknown_sharing_or_model_is_refused_with_the_known_ones() -> None:
    with pytest.raises(SettingsError, match=r"first-bn.*conv\+bn"):
        SearchConfig.make({"algorithm": "hba", "sharing": "batchnorm"})
    with pytest.raises(SettingsError, match=r"wrn-40-2.*resnet-18"):
        SearchConfig.make({"model": "resnet-7"})


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"warm_up_epochs": 5, "epochs": 5}, "must leave epochs for lambda steps, got 5 of 5"),
        ({"sigma": 0}, "must be above 0"),
        ({"sigma_end": 0, "algorithm": "lookahead"}, "must be above 0"),
    ],
)
def test_settings_with_which_nothing_is_learnt_are_refused(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        SearchConfig.from_preset(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"val_steps": 0},
        {"sigma": 0, "algorithm": "hba"},
        {"weight_decay": 0},
        {"crop_padding": 0, "cutout_size": 0, "flip": False},
        {"image_size": 8},
        {"image_size": 1024},
        {"seed": 2**32 - 1, "split_seed": 2**32 - 1},
        {"train_size": None, "val_size": None, "image_size": None},
        {"model": "wrn-22-3", "algorithm": "hba", "sharing": "all", "device": "cpu"},
    ],
)
def test_settings_at_the_edge_are_accepted_as_they_are(settings: dict[str, Any]) -> None:
    config = SearchConfig.make(settings).flat()
    assert {name: config[name] for name in settings} == settings


def test_a_config_does_not_change() -> None:
    with pytest.raises(pydantic.ValidationError):
        SearchConfig().epochs = 3


def test_making_a_config_leaves_the_global_generator_alone() -> None:
    before = torch.get_rng_state()
    SearchConfig.make({"model": "wrn-16-2"})
    assert torch.equal(torch.get_rng_state(), before)


def test_a_dumped_config_makes_the_same_config_again() -> None:
    config = SearchConfig.from_preset({"sigma": 0.5, "flip": True}, "reduced-cifar10")
    assert SearchConfig.make(config.flat()) == config
    assert SearchConfig.from_file(json.loads(json.dumps(config.flat()))) == config


def test_auto_is_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert find_device("auto") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert find_device("auto").type == "cuda"


@pytest.mark.parametrize("name", ["nonsense", "cuda:99", "cpu:x"])
def test_a_device_that_is_not_there_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError, match=r"cannot be used|must be auto, cpu, cuda or cuda:<number>, got") as raised:
        find_device(name)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("function", [hba.search, partial(hba.evaluate, one_operation("Invert", [[0.0]]))])
def test_a_device_may_be_elsewhere_but_here_it_is_asked_for_before_images_are_read(
    function: Callable[..., Any], tmp_path: Path
) -> None:
    assert SearchConfig.make({"device": "cuda:99"}).device == "cuda:99"
    (tmp_path / "no-images").mkdir()
    with pytest.raises(SettingsError, match=r"^device 'cuda:99' cannot be used \(.*\); try auto or cpu$"):
        function(tmp_path / "no-images", device="cuda:99")


def test_data_settings_alone_are_checked_too() -> None:
    assert DataConfig.make({"data": "svhn", "val_size": 3}).val_size == 3
    with pytest.raises(SettingsError, match=r"^there is no setting epochs$"):
        DataConfig.make({"epochs": 3})


@pytest.mark.parametrize("betas", ["0.9", "0.9,1", "0.9,0.99,0.999", "-0.1,0.9", (0.9, float("nan")), None, 0.9])
def test_the_betas_of_lambda_are_two_numbers_below_one(betas: Any) -> None:
    with pytest.raises(SettingsError, match=r"^lambda_betas"):
        SearchConfig.make({"lambda_betas": betas})


@pytest.mark.parametrize("betas", ["0.5,0.99", " 0.5 , 0.99", [0.5, 0.99], (0.5, 0.99)])
def test_the_betas_of_lambda_come_back_from_config_json(betas: Any) -> None:
    config = SearchConfig.make({"lambda_betas": betas})
    assert isinstance(config.algorithm, Lookahead)
    assert config.algorithm.lambda_betas == (0.5, 0.99)
    assert SearchConfig.from_file(json.loads(json.dumps(config.flat()))) == config


def test_what_an_evaluation_on_other_images_takes_over_is_told() -> None:
    def inherited(searched: dict[str, Any], given: dict[str, Any]) -> dict[str, Any]:
        return EvaluationConfig.inherited(searched, EvaluationConfig.sourced(searched, given))

    taken = inherited(SEARCHED, {"data": "other/images", "epochs": 20})
    assert taken == {"model": "wrn-22-3", "batch_size": 9, "learning_rate": 0.3, "weight_decay": 0.2}
    assert inherited({**SEARCHED, "data": "my/images"}, {"data": "other/images"})["split_seed"] == 4
    assert inherited(SEARCHED, {}) == {}


def test_a_list_of_classes_stays_with_the_folder_that_it_was_for() -> None:
    searched = SearchConfig(data="one", classes="keep.txt").flat()
    assert EvaluationConfig.like_search(searched, {}).classes == "keep.txt"
    assert EvaluationConfig.like_search(searched, {"data": "other"}).classes is None
    assert EvaluationConfig.like_search(searched, {"data": "other", "classes": "imagenet-120"}).classes


@pytest.mark.parametrize("given", ["\ud800", "a\udfff", "a\0b"])
@pytest.mark.parametrize("name", ["data", "classes", "data_root", "path_column", "model", "pretrained", "init_from"])
def test_text_that_no_file_can_be_called_is_refused_in_the_same_words(name: str, given: str) -> None:
    for make in (SearchConfig.make, SearchConfig.from_preset):
        with pytest.raises(SettingsError) as refused:
            make({name: given})
        expected = f"{name} must be text that UTF-8 can hold, without null characters, got {given!r}"
        assert str(refused.value) == str(SettingsError(expected))


def test_a_name_with_bytes_that_are_no_text_is_kept() -> None:
    """As Python reads such a file's name from a folder."""
    assert DataConfig.make({"data": "\udcff", "classes": "\udc80"}).classes == "\udc80"
