"""The layers of an evaluation's settings, each by itself, and how they are put together."""

from typing import Any

import pytest

from hba.config.evaluation import EvaluationConfig
from hba.config.inheritance import (
    DEFAULT,
    GIVEN,
    OF_SEARCH,
    OF_SEARCHED_IMAGES,
    Layer,
    Sourced,
    layers_of,
    merged,
    of_preset,
    of_search,
    of_searched_images,
)
from hba.errors import SettingsError

SEARCHED: dict[str, Any] = {
    "data": "my/photos", "model": "wrn-10-1", "epochs": 7, "image_size": 16, "split_seed": 4, "classes": "list.txt",
    "flip": True, "crop_padding": 2, "train_size": 50, "seed": 8, "algorithm": "lookahead",
}  # fmt: skip
OF_FOLDER = {"image_size": 16, "split_seed": 4}
BASELINE = {"flip": True, "crop_padding": 2}
ALL_OF_IMAGES = {"data": "my/photos", "classes": "list.txt", **OF_FOLDER, **BASELINE}


def test_the_search_hands_on_how_it_trained_and_nothing_else() -> None:
    assert of_search(SEARCHED) == (OF_SEARCH, {"model": "wrn-10-1", "epochs": 7})
    assert of_search({**SEARCHED, "model": None}).settings == {"epochs": 7}
    assert of_search({}).settings == {}


@pytest.mark.parametrize(
    ("data", "given", "has_preset", "expected"),
    [
        ("my/photos", {}, False, ALL_OF_IMAGES),
        ("moved/photos", {}, False, {**OF_FOLDER, **BASELINE}),
        ("cifar10", {}, False, {}),
        ("moved/photos", {}, True, OF_FOLDER),
        ("moved/photos", {"baseline": "auto"}, False, OF_FOLDER),
        ("moved/photos", {"baseline_like": "svhn"}, False, OF_FOLDER),
        ("moved/photos", {"image_size": 32}, False, {**OF_FOLDER, "flip": True, "crop_padding": 4}),
    ],
    ids=["same", "a folder", "a dataset", "preset", "baseline", "baseline like", "larger"],
)
def test_the_searched_images_hand_on_what_fits_the_evaluated_ones(
    data: str, given: dict[str, Any], has_preset: bool, expected: dict[str, Any]
) -> None:
    assert of_searched_images(SEARCHED, data, given, has_preset=has_preset) == (OF_SEARCHED_IMAGES, expected)


def test_a_preset_is_called_by_its_name_and_table_11_stands_for_none() -> None:
    layer = of_preset("cifar10-wrn-40-2", "cifar10", {})
    assert (layer.name, layer.settings["model"], layer.settings["epochs"]) == (
        "preset cifar10-wrn-40-2",
        "wrn-40-2",
        200,
    )
    layer = of_preset(None, "cifar10", {})
    assert (layer.name, layer.settings["learning_rate"], "model" in layer.settings) == (
        "the paper's Table 11",
        0.1,
        False,
    )
    assert of_preset(None, "my/photos", {}).settings == {}


def test_a_later_layer_replaces_a_setting_and_leaves_the_others() -> None:
    layers = [Layer("low", {"a": 1, "b": 2}), Layer("middle", {"b": 3}), Layer("high", {"c": None})]
    assert merged(layers) == {"a": Sourced(1, "low"), "b": Sourced(3, "middle"), "c": Sourced(None, "high")}


def test_the_layers_stand_in_the_order_of_their_strength() -> None:
    names = [layer.name for layer in layers_of({"seeds": 3}, SEARCHED, {"epochs": 2}, "cifar10-wrn-40-2")]
    assert names == [DEFAULT, OF_SEARCH, OF_SEARCHED_IMAGES, "preset cifar10-wrn-40-2", GIVEN]


def test_each_setting_knows_its_layer() -> None:
    sourced = EvaluationConfig.sourced(SEARCHED, {"epochs": 2})
    assert sourced["epochs"] == (2, GIVEN)
    assert sourced["model"] == ("wrn-10-1", OF_SEARCH)
    assert (sourced["flip"], sourced["data"]) == ((True, OF_SEARCHED_IMAGES), ("my/photos", OF_SEARCHED_IMAGES))
    assert sourced["seeds"] == (3, DEFAULT)
    assert set(sourced) == set(EvaluationConfig.model_fields)


def test_a_schedule_of_an_own_network_needs_a_model_or_a_network() -> None:
    searched = {**SEARCHED, "model": None}
    with pytest.raises(SettingsError, match=r"searched with a network of your own: choose a model .* network="):
        layers_of({}, searched, {}, None)
    assert EvaluationConfig.like_search(searched, {"model": "wrn-16-3"}).model == "wrn-16-3"
    assert EvaluationConfig.like_search(searched, {}, has_own_network=True).epochs == 7
