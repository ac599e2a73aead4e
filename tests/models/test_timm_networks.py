"""timm's networks by name, and what is said where there is no such network or no timm."""

import sys

import pytest
import timm
import torch
from each import each

from hba.errors import SettingsError
from hba.models import build_model, find_model


def test_a_network_of_timm_goes_by_its_name() -> None:
    network = build_model("timm:resnet10t", 7, seed=0)
    assert type(network) is type(timm.create_model("resnet10t", pretrained=False))
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 7)


@each("name", ["resnet10", "", "hf-hub:timm/resnet10t", "RESNET10T", "timm:resnet10t"])
def test_an_unknown_network_of_timm_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown timm model") as raised:
        find_model(f"timm:{name}")
    assert repr(name) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_without_timm_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SettingsError) as raised:
        find_model("timm:resnet10t")
    assert str(raised.value) == "model 'timm:resnet10t' needs timm: pip install 'hba-augment[timm]'"


def test_a_network_that_is_made_for_another_image_size_is_refused_in_one_line() -> None:
    name = "timm:vit_tiny_patch16_224"
    with pytest.raises(SettingsError, match="cannot take images of 32x32 ") as raised:
        build_model(name, 3, seed=0, image_size=32)
    assert len(str(raised.value).splitlines()) == 1
    assert build_model(name, 3, seed=0, image_size=224).training
